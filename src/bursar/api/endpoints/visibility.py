"""Looks up a job or an array; one that the caller may not see does not exist for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.control.access.permissions import can_see_queue, denied, may_change_job
from bursar.model.jobs.job import OVER, JobSpec, JobState
from bursar.ports import JobRow, StoreReader

LIVE = (
    JobState.RUNNING,
    JobState.STARTING,
    JobState.STOPPING,
    JobState.EXPIRING,
    JobState.CANCELLING,
    JobState.QUEUED,
    JobState.BLOCKED,
)
ENDED = (JobState.FAILED, JobState.CANCELLED, JobState.SUCCEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRow:
    """An array: jobs submitted together under one id. ``first`` has what its members share."""

    id: str
    first: JobRow
    members: Sequence[tuple[str, JobState]]

    @property
    def state(self) -> JobState:
        """The state of the whole: live before ended, failed before succeeded."""
        states = {state for _, state in self.members}
        return next(state for state in (*LIVE, *ENDED) if state in states)

    @property
    def states(self) -> dict[JobState, int]:
        """The number of members in each state, in the order of a job's life."""
        states = [state for _, state in self.members]
        return {state: states.count(state) for state in JobState if state in states}

    @property
    def name(self) -> str:
        """The common name of the members, without their number."""
        return self.first.name.removesuffix("[0]")

    @property
    def spec(self) -> JobSpec:
        """The job as submitted, before it was expanded into members."""
        return replace(self.first.spec, name=self.name, array_size=len(self.members))

    @property
    def member_to_explain(self) -> str:
        """The first member that waits, else one that is live, else a failed one."""
        waiting = (JobState.QUEUED, JobState.BLOCKED)
        ranks = {state: rank for rank, state in enumerate((*waiting, *LIVE[:-2], *ENDED))}
        return min(enumerate(self.members), key=lambda one: (ranks[one[1][1]], one[0]))[1][0]

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def __str__(self) -> str:
        states = ", ".join(f"{count:,} {state}" for state, count in self.states.items())
        return f"{self.id} is an array of {len(self.members):,} jobs: {states}"


async def find(request: RequestContext) -> JobRow | ArrayRow:
    """The job or array of the path. The error for another tenant's is that for a missing one."""
    job_id = request.path["job_id"]
    reader = request.context.plane.reader
    found = await request.context.run_blocking(_look_up, reader, job_id) if is_id(job_id) else None
    fleet = await request.context.fleet()
    if found is None:
        raise no_such_job(job_id)
    row = found.first if isinstance(found, ArrayRow) else found
    if not can_see_queue(request.caller, row.queue, fleet.tree):
        request.audit("hidden", f"job {row.id} of queue {row.queue}")
        raise no_such_job(job_id)
    return found


def _look_up(reader: StoreReader, job_id: str) -> JobRow | ArrayRow | None:
    row = reader.job(job_id)
    if row is not None:
        return row
    first = reader.job(f"{job_id}[0]")
    if first is None:
        return None
    return ArrayRow(id=job_id, first=first, members=reader.members(job_id))


async def find_job(request: RequestContext) -> JobRow:
    """The job of the path; an array is refused."""
    found = await find(request)
    if isinstance(found, ArrayRow):
        raise HttpRefusal(
            f"{found}; this request is for one job.",
            fix=f"Name one of them, for example {found.first.id}.",
            code="is-an-array",
        )
    return found


def is_id(text: str) -> bool:
    """Whether a text could be an id; others are not looked up."""
    return len(text) <= 200 and text.isprintable()


def no_such_job(job_id: str) -> HttpRefusal:
    return HttpRefusal(
        f"there is no job {job_id[:80]!r}.",
        fix="'bursar status' (GET /v1/jobs) lists your jobs; ids begin with j-.",
        code="no-such-job",
    )


def require_owner(request: RequestContext, row: JobRow) -> None:
    """Refuses to change another user's job unless the caller is a lead."""
    if not may_change_job(request.caller, row.owner):
        raise denied(
            f"{row.id} belongs to {row.owner}, and your role is {request.caller.role}.",
            f"Ask {row.owner}, or a lead of the tenant.",
        )
