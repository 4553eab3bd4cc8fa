"""Looking up a job or an array for somebody: his to see, or not there at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.control.access.permissions import can_see_queue, denied, may_change_job
from bursar.model.jobs.job import OVER, JobSpec, JobState
from bursar.ports import JobRow, StoreReader

GOING = (
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
    """Jobs that came in together under one id. ``first`` stands for all where they are alike."""

    id: str
    first: JobRow
    members: Sequence[tuple[str, JobState]]

    @property
    def state(self) -> JobState:
        """Where it is: what goes on counts before what is over, and a failure before a success."""
        states = {state for _, state in self.members}
        return next(state for state in (*GOING, *ENDED) if state in states)

    @property
    def states(self) -> dict[JobState, int]:
        """How many members are where, in the order of a job's life."""
        found = [state for _, state in self.members]
        return {state: found.count(state) for state in JobState if state in found}

    @property
    def name(self) -> str:
        """What its members are called but for their number."""
        return self.first.name.removesuffix("[0]")

    @property
    def whole_spec(self) -> JobSpec:
        """What was submitted, before it was taken apart."""
        return replace(self.first.spec, name=self.name, array_size=len(self.members))

    @property
    def telling(self) -> str:
        """The member that says most about it: one that waits, else one that goes on, else a failed one."""
        waits = (JobState.QUEUED, JobState.BLOCKED)
        ranks = {state: rank for rank, state in enumerate((*waits, *GOING[:-2], *ENDED))}
        return min(enumerate(self.members), key=lambda one: (ranks[one[1][1]], one[0]))[1][0]

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} {state}" for state, count in self.states.items())
        return f"{self.id} is an array of {len(self.members):,} jobs: {told}"


async def find(call: RequestContext) -> JobRow | ArrayRow:
    """What the path names. What is another tenant's is answered exactly as what does not exist."""
    job_id = call.path["job_id"]
    reader = call.desk.plane.reader
    found = await call.desk.read(_look_up, reader, job_id) if fits(job_id) else None
    ground = await call.desk.ground()
    if found is None:
        raise no_such_job(job_id)
    row = found.first if isinstance(found, ArrayRow) else found
    if not can_see_queue(call.who, row.queue, ground.tree):
        call.note("hidden", f"job {row.id} of queue {row.queue}")
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


async def find_job(call: RequestContext) -> JobRow:
    """The one job of the path, where an array will not do."""
    found = await find(call)
    if isinstance(found, ArrayRow):
        raise HttpRefusal(
            f"{found}; this is asked of one of them.",
            fix=f"Name one, for example {found.first.id}.",
            code="is-an-array",
        )
    return found


def fits(text: str) -> bool:
    """Whether a text could be an id at all; what cannot is not looked up."""
    return len(text) <= 200 and text.isprintable()


def no_such_job(job_id: str) -> HttpRefusal:
    return HttpRefusal(
        f"there is no job {job_id[:80]!r}.",
        fix="'bursar status' (GET /v1/jobs) lists your jobs; ids begin with j-.",
        code="no-such-job",
    )


def own_job(call: RequestContext, row: JobRow) -> None:
    """Refuse to change somebody else's job unless the caller leads."""
    if not may_change_job(call.who, row.owner):
        raise denied(
            f"{row.id} is {row.owner}'s job, and you are a {call.who.role}.",
            f"Ask {row.owner}, or a lead of the tenant.",
        )
