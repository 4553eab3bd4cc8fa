"""Gives a waiting job another spec temporarily, to try it with a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.errors import BrokenInvariant
from bursar.model.jobs.job import JobSpec, JobState


def is_queued(record: JobRecord) -> bool:
    """Whether a job waits in a queue without a claim."""
    return record.state is JobState.QUEUED and record.claim is None


@contextmanager
def with_spec(state: FleetState, job_id: str, new_spec: JobSpec) -> Iterator[JobRecord]:
    """Gives a waiting job another spec until the block ends.

    Its id, priority and submission time stay. A backlog or a plan that only the changed job uses is
    removed afterwards.
    """
    record = state.jobs[job_id]
    if not is_queued(record):
        raise BrokenInvariant(f"{record!r} is not queued and cannot be changed")
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
