"""Run times of a queue's past jobs, read from the tables; estimates learn from them."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.accounting.estimates.run_time import RUNS_PER_KEY, RunTimeHistory
from bursar.model import event as ev
from bursar.model.jobs.job import JobState
from bursar.ports import AttemptRow, JobFilter, JobRow, StoreReader

INFORMATIVE_STATES = frozenset({JobState.SUCCEEDED, JobState.RUNNING, JobState.CANCELLED})
"""The run time of a running or cancelled job is a lower bound."""


def similar_runs(reader: StoreReader, queue: str) -> RunTimeHistory:
    """Run times of the newest jobs of a queue."""
    runs = RunTimeHistory()
    for state in sorted(INFORMATIVE_STATES):
        wanted = JobFilter(queues=frozenset({queue}), states=frozenset({state}), limit=RUNS_PER_KEY)
        for row in reversed(reader.jobs(wanted)):
            for event in _job_events(row, reader):
                runs.apply(event)
    return runs


def _job_events(row: JobRow, reader: StoreReader) -> Iterator[ev.LoggedEvent]:
    """The events of a job. Its row suffices if it had only one attempt."""
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
            yield from _attempt_events(attempt)
    if row.state is JobState.CANCELLED and row.ended_at_ms is not None:
        yield ev.JobCancelled(at_ms=row.ended_at_ms, job_id=row.id)


def _attempt_events(attempt: AttemptRow) -> Iterator[ev.LoggedEvent]:
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
