"""Looking up a job for somebody: his to see, or not there at all."""

from __future__ import annotations

from bursar.api.call import Call
from bursar.api.problems import Refused
from bursar.control.access import denied, may_change_job, sees_queue
from bursar.ports import JobRow


async def find_job(call: Call) -> JobRow:
    """The job of the path. One of another tenant is answered exactly as one that does not exist."""
    job_id = call.path["job_id"]
    row = await call.desk.read(call.desk.plane.reader.job, job_id) if fits(job_id) else None
    ground = await call.desk.ground()
    if row is None:
        raise no_such_job(job_id)
    if not sees_queue(call.who, row.queue, ground.tree):
        call.note("hidden", f"job {row.id} of queue {row.queue}")
        raise no_such_job(job_id)
    return row


def fits(text: str) -> bool:
    """Whether a text could be an id at all; what cannot is not looked up."""
    return len(text) <= 200 and text.isprintable()


def no_such_job(job_id: str) -> Refused:
    return Refused(
        f"there is no job {job_id[:80]!r}.",
        fix="List your jobs with GET /v1/jobs; ids begin with j-.",
        code="no-such-job",
    )


def own_job(call: Call, row: JobRow) -> None:
    """Refuse to change somebody else's job unless the caller leads."""
    if not may_change_job(call.who, row.owner):
        raise denied(
            f"{row.id} is {row.owner}'s job, and you are a {call.who.role}.",
            f"Ask {row.owner}, or a lead of the tenant.",
        )
