"""A handle of a submitted job: wait, logs, result, cancel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bursar.client.errors import Denied, JobFailed, Refused, TimedOut
from bursar.client.function_result import ResultFilter, has_result, read_result, without_results

if TYPE_CHECKING:
    from bursar.api import wire
    from bursar.client.client import Client

IS_AN_ARRAY: Final = "is-an-array"
"""The error code for an array where one job is expected."""
OVER: Final = frozenset({"succeeded", "failed", "cancelled"})
FIRST_POLL_SECONDS: Final = 0.05
MAX_POLL_SECONDS: Final = 2.0


class Job:
    """A job or an array. An array has ended when all its ``members`` have."""

    def __init__(self, client: Client, job_id: str, ids: tuple[str, ...] = ()) -> None:
        self.id = job_id
        self.ids = ids or (job_id,)
        self.findings: tuple[wire.FindingRow, ...] = ()
        """What governance rules in dry-run would forbid, as of the submission."""
        self._client = client

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    @property
    def members(self) -> tuple[Job, ...]:
        """The jobs of an array, or the job itself. Sends a request if only an id is known."""
        if len(self.ids) > 1:
            return tuple(Job(self._client, one) for one in self.ids)
        array = self.show().get("array")
        if array is None:
            return (self,)
        return tuple(Job(self._client, one["id"]) for one in array["members"])

    @property
    def state(self) -> str:
        """The current state. An array has failed if one member has, and ended when all have."""
        return self.show()["state"]

    def show(self) -> wire.JobDetail:
        """The job with its attempts and its document."""
        return self._client.show(self.id)

    def wait(self, timeout: float | None = None) -> str:
        """Waits until the job ends and returns its state. The timeout does not stop the job."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_POLL_SECONDS
        while True:
            state = self.state
            if state in OVER:
                return state
            if deadline is not None and time.monotonic() + pause > deadline:
                raise TimedOut(
                    f"{self.id} is still {state}; the timeout does not stop it.",
                    fix=f"'bursar why {self.id}' shows when it should start or end.",
                    code="still-going",
                )
            time.sleep(pause)
            pause = min(MAX_POLL_SECONDS, pause * 1.5)

    def logs(self, *, follow: bool = False, **filters: str | int) -> str | Iterator[str]:
        """All output so far; with ``follow``, line by line until the job ends.

        ``task``, ``stream``, ``tail`` and ``attempt`` filter it. Members of an array follow one another.
        """
        if follow:
            return self._follow_all(filters)
        return without_results(self._client.log_text(self.id, **filters))

    def _follow_all(self, filters: dict[str, str | int]) -> Iterator[str]:
        try:
            yield from self._follow(filters)
        except Refused as refused:
            if refused.code != IS_AN_ARRAY:
                raise
            for member in self.members:
                yield from member._follow(filters)

    def _follow(self, filters: dict[str, str | int]) -> Iterator[str]:
        """Complete lines of each task and stream, until the attempt ends."""
        result_filters: dict[tuple[int, str], ResultFilter] = {}
        partial_lines: dict[tuple[int, str], str] = {}
        for piece in self._client.follow_logs(self.id, **filters):
            source = (piece["task"], piece["stream"])
            text = result_filters.setdefault(source, ResultFilter()).feed(piece["text"])
            *lines, partial_lines[source] = (partial_lines.get(source, "") + text).split("\n")
            yield from lines
        yield from (rest for _, rest in sorted(partial_lines.items()) if rest)

    def cancel(self) -> str:
        """Cancels the job and returns its state."""
        return self._client.cancel(self.id)["state"]

    def retry(self) -> Job:
        """Submits the job again, as a new job."""
        return self._client.retry(self.id)

    def why(self) -> str:
        """Why the job is in its state, when it will start, and what would help, in sentences."""
        return "\n".join(self._client.why(self.id)["text"])

    def result(self, timeout: float | None = None) -> object:
        """The return value of the function; an exception that it raised is raised here.

        Unpickling a result runs code from it, so only the owner of a job may read it.
        """
        state = self.wait(timeout)
        shown = self.show()
        user = self._client.whoami()["user"]
        if shown["owner"] != user:
            raise Denied(
                f"{self.id} belongs to {shown['owner']}, and you are {user}: reading a result runs "
                "code from it, which is allowed only for your own jobs.",
                fix="Have its owner write the result to storage that you can read.",
                code="not-your-result",
            )
        output = self._client.log_text(self.ids[0], task=0, stream="stdout")
        if state != "succeeded" and not has_result(output):
            raise _no_result(self.id, state, shown)
        return read_result(output, self.id)


def _no_result(job_id: str, state: str, shown: wire.JobDetail) -> JobFailed:
    how = shown["exit_detail"] or f"exit code {shown['exit_code']}"
    return JobFailed(
        f"{job_id} {state if state != 'cancelled' else 'was cancelled'} and left no result: {how}.",
        fix=f"'bursar logs {job_id}' shows what it wrote.",
        code="job-not-succeeded",
    )
