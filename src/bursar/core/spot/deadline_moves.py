"""Moves running jobs with a deadline between spot and other pools.

A move is a stop and a start: once the attempt has stopped, its job is scheduled like any other. Until then
each cycle reserves its new placement.
"""

from __future__ import annotations

from bursar.core.deadline.inputs import ON_DEMAND, WAIT, Location
from bursar.core.draft import Draft
from bursar.core.placement.find_placement import find_placement
from bursar.core.spot.pool_choice import DeadlineChoice
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import StopJob, StopReason
from bursar.model.jobs.job import JobState
from bursar.model.tenants.tenant import Queueing


def move_deadline_jobs(draft: Draft) -> None:
    """Order the moves that are due, and reserve capacity for jobs that are moving.

    Where a budget blocks new starts nothing is moved: the job could not start again.
    """
    for _, record in sorted(draft.state.backlogs.deadline_jobs.items()):
        if record.spec.queue in draft.state.budgets.holds:
            continue
        if record.state is JobState.STOPPING:
            choice = DeadlineChoice.of(draft, record)
            if choice is not None:
                _reserve(draft, record, choice.choose_location())
        elif record.state is JobState.RUNNING and record.id not in draft.victims | draft.stopped:
            if record.spec.preemptible and not record.stop_requested:
                _move_if_due(draft, record)


def _move_if_due(draft: Draft, record: JobRecord) -> None:
    """Move a job only if the target has capacity; a running job never stops just to wait."""
    choice = DeadlineChoice.of(draft, record)
    if choice is None:
        return
    location = choice.choose_location()
    if location in (WAIT, choice.progress.location):
        return
    if location != ON_DEMAND and (
        _is_in_strict_queue(draft, record) or not choice.has_time_to_move(location)
    ):
        return
    if not _reserve(draft, record, location):
        return
    draft.victims.add(record.id)
    draft.orders.append(StopJob(job_id=record.id, attempt=record.attempt, reason=StopReason.MOVE))


def _is_in_strict_queue(draft: Draft, record: JobRecord) -> bool:
    """Whether other jobs may block it when it waits again: then no move for a lower price."""
    return draft.state.tenants[record.spec.queue].queueing is Queueing.STRICT


def _reserve(draft: Draft, record: JobRecord, location: Location) -> bool:
    """Occupy capacity and quota at a location for the rest of this cycle; False if there is none."""
    plan = record.backlog.plan
    for fit in plan.fits:
        if fit.is_spot is (location == ON_DEMAND) or (
            fit.is_spot and fit.pool.spec.name != location
        ):
            continue
        request = fit.request(fit.min_counts)
        if not draft.state.quota.fits(record.spec.queue, request):
            continue
        if find_placement(fit, fit.min_counts, draft.search(record, fit)) is not None:
            draft.journal.charge(draft.state.quota, record.spec.queue, request)
            return True
    return False
