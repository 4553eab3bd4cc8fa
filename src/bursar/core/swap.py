"""A waiting job changed for a while: what would the cycle say if this had been asked for instead?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.errors import BrokenInvariant
from bursar.model.job import JobSpec, JobState


def can_be_swapped(record: JobRecord) -> bool:
    """Whether a job waits in line: not running, not blocked by others, no place kept for it."""
    return record.state is JobState.QUEUED and record.claim is None


@contextmanager
def swapped(state: FleetState, job_id: str, new_spec: JobSpec) -> Iterator[JobRecord]:
    """The state with one waiting job asking for something else; as before when the block ends.

    The job keeps its id, its priority and the moment it was submitted. A line that exists only for
    the changed job goes with it, and so does the plan of a shape that nobody else has.
    """
    record = state.jobs[job_id]
    if not can_be_swapped(record):
        raise BrokenInvariant(f"{record!r} does not wait in line and cannot be changed")
    old = (record.spec, record.line, record.rank, record.run_ms)
    record.line.leave(record)
    record.spec = new_spec
    state.book.enlist(record)
    record.line.join(record)
    try:
        yield record
    finally:
        record.line.leave(record)
        state.book.delist(record)
        record.spec, record.line, record.rank, record.run_ms = old
        record.line.join(record)
