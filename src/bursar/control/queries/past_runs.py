"""How long a queue's own jobs ran, read from the tables: estimates learn from jobs that are over."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.accounting.estimates.run_time_history import REMEMBERED, RunTimeHistory
from bursar.model import event as ev
from bursar.model.jobs.job import JobState
from bursar.ports import AttemptRow, JobFilter, JobRow, StoreReader

LOOKED_AT = frozenset({JobState.SUCCEEDED, JobState.RUNNING, JobState.CANCELLED})
"""Jobs that were cancelled or still run have run at least so long."""


def alike_runs(reader: StoreReader, queue: str) -> RunTimeHistory:
    """The newest jobs of a queue, told as the events from which run times are learned."""
    runs = RunTimeHistory()
    for state in sorted(LOOKED_AT):
        wanted = JobFilter(queues=frozenset({queue}), states=frozenset({state}), limit=REMEMBERED)
        for row in reversed(reader.jobs(wanted)):
            for event in _story(row, reader):
                runs.apply(event)
    return runs


def _story(row: JobRow, reader: StoreReader) -> Iterator[ev.LoggedEvent]:
    """Most jobs are tried once, and their row says it all."""
    if row.started_at_ms is None:
        return
    at_ms = row.submitted_at_ms
    yield ev.JobSubmitted(at_ms=at_ms, job_id=row.id, spec=row.spec, priority=row.priority)
    if row.attempt == 1:
        yield ev.AttemptStarted(at_ms=row.started_at_ms, job_id=row.id, attempt=1)
        if row.state is JobState.SUCCEEDED and row.ended_at_ms is not None:
            yield ev.AttemptSucceeded(at_ms=row.ended_at_ms, job_id=row.id, attempt=1)
    else:
        for attempt in reader.attempts(row.id):
            yield from _try(attempt)
    if row.state is JobState.CANCELLED and row.ended_at_ms is not None:
        yield ev.JobCancelled(at_ms=row.ended_at_ms, job_id=row.id)


def _try(attempt: AttemptRow) -> Iterator[ev.LoggedEvent]:
    job_id, number = attempt.job_id, attempt.attempt
    if attempt.started_at_ms is None:
        return
    yield ev.AttemptStarted(at_ms=attempt.started_at_ms, job_id=job_id, attempt=number)
    if attempt.saved_at_ms is not None:
        yield ev.CheckpointSaved(at_ms=attempt.saved_at_ms, job_id=job_id, attempt=number)
    if attempt.ended_at_ms is None:
        return
    if attempt.outcome == ev.AttemptSucceeded.__name__:
        yield ev.AttemptSucceeded(at_ms=attempt.ended_at_ms, job_id=job_id, attempt=number)
    else:
        yield ev.AttemptFailed(at_ms=attempt.ended_at_ms, job_id=job_id, attempt=number)
