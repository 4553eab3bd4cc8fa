"""All alarms of a state, for whoever has a state and not the events that led to it.

After a start from a snapshot, and after a new declaration, nobody remembers which moments are still to
come. They are read off the state here: a job that is over its time must be told so, whoever was away.
"""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.alarms import (
    NEVER_MS,
    Wake,
    attempts_matter,
    next_outlasting_ms,
    wakes_after_start,
    wakes_after_submission,
)
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.job import JobState
from bursar.model.lifecycle import LIVE


def wakes_from(state: FleetState, now_ms: int) -> list[Wake]:
    """Every moment after now at which time alone may matter, by job."""
    found: list[Wake] = []
    for _, record in sorted(state.jobs.items()):
        if record.state in LIVE:
            found += _of_attempt(state, record, now_ms)
        elif record.state in (JobState.QUEUED, JobState.BLOCKED):
            found += _of_waiting(state, record, now_ms)
    return [one for one in found if one.at_ms > now_ms]


def _of_attempt(state: FleetState, record: JobRecord, now_ms: int) -> Iterator[Wake]:
    moments = [one.at_ms for one in wakes_after_start(state, record)]
    if attempts_matter(state.policies):
        moments.append(record.assigned_at_ms + state.policies.preemption.minimum_run_ms)
        moments.append(record.end_at_ms)
    if (outlasts_ms := next_outlasting_ms(state, record, now_ms)) != NEVER_MS:
        moments.append(outlasts_ms)
    for at_ms in moments:
        yield Wake(at_ms=at_ms, job_id=record.id, attempt=record.attempt)


def _of_waiting(state: FleetState, record: JobRecord, now_ms: int) -> Iterator[Wake]:
    yield from wakes_after_submission(state, record)
    step_ms = state.policies.order.aging_step_ms
    if step_ms:
        steps = max(0, now_ms - record.submitted_at_ms) // step_ms + 1
        at_ms = record.submitted_at_ms + steps * step_ms
        yield Wake(at_ms=at_ms, job_id=record.id, attempt=0)
