"""When a decision may change though nothing happens, so that a cycle is worth running.

Time alone matters in six ways: an attempt reaches its maximum run time; it has run long enough to be
preempted; it has had so much GPU time that others come before it; it outlives its expected end, which
moves the plans that counted on it; a waiting job comes so close to its deadline that it is urgent; a
waiting job has aged by a step. Whether anything follows
is for the core to say. An alarm that is too many costs a cycle; one that is missing costs a job its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bursar.core.lifecycle import LIVE
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.event import (
    AttemptAssigned,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobSubmitted,
)
from bursar.model.job import JobState
from bursar.model.policy import OrderTerm
from bursar.model.units import MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Nothing happens, but time alone may change a decision about this attempt (0: none yet)."""

    at_ms: int
    job_id: str
    attempt: int


QUIET = frozenset({AttemptStarted, CheckpointSaved})
"""Events that give nobody room, quota or rank: no hold can end by them."""


def calls_for_a_cycle(events: list[Event]) -> bool:
    """Whether any event could change an answer."""
    return any(type(event) not in QUIET for event in events)


def wakes_after(state: FleetState, event: Event) -> Iterator[Wake]:
    """The moments at which time alone may matter, now that an event has been applied."""
    match event:
        case AttemptAssigned(job_id=job_id, attempt=attempt, at_ms=at_ms):
            record = state.jobs[job_id]
            old_enough_ms = at_ms + state.policies.preemption.minimum_run_ms
            yield Wake(at_ms=old_enough_ms, job_id=job_id, attempt=attempt)
            yield Wake(at_ms=record.end_at_ms, job_id=job_id, attempt=attempt)
        case AttemptStarted(job_id=job_id, attempt=attempt):
            started = state.jobs.get(job_id)
            if started is not None and started.limit_at_ms is not None:
                yield Wake(at_ms=started.limit_at_ms, job_id=job_id, attempt=attempt)
            if started is not None and OrderTerm.LEAST_ATTAINED in state.policies.order.terms:
                for falls_at_ms in _falls(state, started):
                    yield Wake(at_ms=falls_at_ms, job_id=job_id, attempt=attempt)
        case JobSubmitted(job_id=job_id, at_ms=at_ms):
            record = state.jobs[job_id]
            order = state.policies.order
            if record.deadline_ms is not None:
                slack_ms = record.deadline_ms - record.run_ms - at_ms
                if slack_ms >= order.urgent_slack_ms:
                    urgent_ms = at_ms + slack_ms - order.urgent_slack_ms + 1
                    yield Wake(at_ms=urgent_ms, job_id=job_id, attempt=0)
            if order.aging_step_ms:
                yield Wake(at_ms=at_ms + order.aging_step_ms, job_id=job_id, attempt=0)
        case _:
            return


def _falls(state: FleetState, record: JobRecord) -> Iterator[int]:
    """When a running job will have had so much GPU time that it falls to a lower level."""
    gpu_milli = record.line.plan.gpu_milli
    if record.started_at_ms is None or not gpu_milli:
        return
    for level in state.policies.order.attained_levels_gpu_ms:
        left = level - record.attained_gpu_ms
        if left > 0:
            yield record.started_at_ms - (-left * MILLI // gpu_milli)


def wake_again(state: FleetState, wake: Wake) -> Wake | None:
    """The next step of a job that ages, once the present one has come."""
    step_ms = state.policies.order.aging_step_ms
    record = state.jobs.get(wake.job_id)
    if wake.attempt or not step_ms or record is None:
        return None
    if (wake.at_ms - record.submitted_at_ms) % step_ms:
        return None
    return Wake(at_ms=wake.at_ms + step_ms, job_id=wake.job_id, attempt=0)


def still_matters(state: FleetState, wake: Wake, *, someone_waits: bool) -> bool:
    """Whether what an alarm was set for is still so.

    An attempt's age and lateness matter only to those who wait; its time limit matters always.
    """
    record = state.jobs.get(wake.job_id)
    if record is None:
        return False
    if not wake.attempt:
        return record.state is JobState.QUEUED
    if record.attempt != wake.attempt or record.state not in LIVE:
        return False
    return someone_waits or record.limit_at_ms == wake.at_ms
