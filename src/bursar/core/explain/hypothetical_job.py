"""A waiting job changed for a while: what would the cycle say if this had been asked for instead?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.errors import BrokenInvariant
from bursar.model.jobs.job import JobSpec, JobState


def can_be_swapped(record: JobRecord) -> bool:
    """Whether a job waits in line: not running, not blocked by others, no place kept for it."""
    return record.state is JobState.QUEUED and record.claim is None


@contextmanager
def swapped(state: FleetState, job_id: str, new_spec: JobSpec) -> Iterator[JobRecord]:
    """The state with one waiting job asking for something else; as before when the block ends.

    The job keeps its id, its priority and the moment it was submitted. A backlog that exists only for
    the changed job goes with it, and so does the plan of a shape that nobody else has.
    """
    record = state.jobs[job_id]
    if not can_be_swapped(record):
        raise BrokenInvariant(f"{record!r} does not wait in line and cannot be changed")
    old = (record.spec, record.backlog, record.rank, record.run_ms)
    record.backlog.leave(record)
    record.spec = new_spec
    state.backlogs.add_job(record)
    record.backlog.join(record)
    try:
        yield record
    finally:
        record.backlog.leave(record)
        state.backlogs.remove_job(record)
        record.spec, record.backlog, record.rank, record.run_ms = old
        record.backlog.join(record)
