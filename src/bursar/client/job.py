"""A submitted job, held by the one who waits for it."""

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
"""The server's answer when one job is asked for and an array is named."""
OVER: Final = frozenset({"succeeded", "failed", "cancelled"})
FIRST_LOOK_SECONDS: Final = 0.05
LONGEST_LOOK_SECONDS: Final = 2.0


class Job:
    """One job, or an array: then ``members`` are its jobs and it is over when all of them are."""

    def __init__(self, client: Client, job_id: str, ids: tuple[str, ...] = ()) -> None:
        self.id = job_id
        self.ids = ids or (job_id,)
        self.findings: tuple[wire.FindingRow, ...] = ()
        """What house rules in dry-run would forbid of it, as told when it was submitted."""
        self._client = client

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    @property
    def members(self) -> tuple[Job, ...]:
        """The jobs of an array; of a single job, itself. The server is asked when only an id is known."""
        if len(self.ids) > 1:
            return tuple(Job(self._client, one) for one in self.ids)
        array = self.show().get("array")
        if array is None:
            return (self,)
        return tuple(Job(self._client, one["id"]) for one in array["members"])

    @property
    def state(self) -> str:
        """Where it is now. An array has failed when one member has, and is over when all are."""
        return self.show()["state"]

    def show(self) -> wire.JobDetail:
        """Everything the server knows about it."""
        return self._client.show(self.id)

    def wait(self, timeout: float | None = None) -> str:
        """Until it is over, and what became of it. The job goes on when the time is up."""
        give_up_at = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_LOOK_SECONDS
        while True:
            state = self.state
            if state in OVER:
                return state
            if give_up_at is not None and time.monotonic() + pause > give_up_at:
                raise TimedOut(
                    f"{self.id} is still {state}; it goes on without you.",
                    fix=f"'bursar why {self.id}' says when it should start or be done.",
                    code="still-going",
                )
            time.sleep(pause)
            pause = min(LONGEST_LOOK_SECONDS, pause * 1.5)

    def logs(self, *, follow: bool = False, **chosen: str | int) -> str | Iterator[str]:
        """All output so far; or with ``follow`` line by line until the job is over.

        ``task``, ``stream``, ``tail`` and ``attempt`` choose. The jobs of an array come one after the other.
        """
        if follow:
            return self._following_all(chosen)
        return without_results(self._client.log_text(self.id, **chosen))

    def _following_all(self, chosen: dict[str, str | int]) -> Iterator[str]:
        try:
            yield from self._following(chosen)
        except Refused as refused:
            if refused.code != IS_AN_ARRAY:
                raise
            for member in self.members:
                yield from member._following(chosen)

    def _following(self, chosen: dict[str, str | int]) -> Iterator[str]:
        """Whole lines, of each task and stream by itself, until the attempt is over."""
        filters: dict[tuple[int, str], ResultFilter] = {}
        begun: dict[tuple[int, str], str] = {}
        for piece in self._client.follow_logs(self.id, **chosen):
            source = (piece["task"], piece["stream"])
            text = filters.setdefault(source, ResultFilter()).feed(piece["text"])
            *lines, begun[source] = (begun.get(source, "") + text).split("\n")
            yield from lines
        yield from (rest for _, rest in sorted(begun.items()) if rest)

    def cancel(self) -> str:
        """Ask for its end, and give the state it is in then."""
        return self._client.cancel(self.id)["state"]

    def retry(self) -> Job:
        """The same once more, as a new job."""
        return self._client.retry(self.id)

    def why(self) -> str:
        """Why it is where it is, when it will start, and what could be done, in sentences."""
        return "\n".join(self._client.why(self.id)["text"])

    def result(self, timeout: float | None = None) -> object:
        """What the function returned; what it raised is raised here too.

        Reading a result runs code from it, so only the owner of a job may: another's is refused.
        """
        state = self.wait(timeout)
        shown = self.show()
        asking = self._client.whoami()["user"]
        if shown["owner"] != asking:
            raise Denied(
                f"{self.id} belongs to {shown['owner']}, and you are {asking}: reading a result runs "
                "code from it, which is done for one's own jobs only.",
                fix="Have its owner write the result to storage that you can read.",
                code="not-your-result",
            )
        output = self._client.log_text(self.ids[0], task=0, stream="stdout")
        if state != "succeeded" and not has_result(output):
            raise _ended_without(self.id, state, shown)
        return read_result(output, self.id)


def _ended_without(job_id: str, state: str, shown: wire.JobDetail) -> JobFailed:
    how = shown["exit_detail"] or f"exit code {shown['exit_code']}"
    return JobFailed(
        f"{job_id} is {state} and left no result: {how}.",
        fix=f"'bursar logs {job_id}' shows what it wrote.",
        code="job-not-succeeded",
    )
