"""Jobs with a deadline that run in one place and should go on in another.

A move is a stop and a start: the attempt is told to stop, and when it has, its job takes its turn like
any other. The room that it is to have is kept for it in the cycles until then.
"""

from __future__ import annotations

from bursar.core.deadline import ON_DEMAND, WAIT, Location
from bursar.core.draft import Draft
from bursar.core.placement.find_placement import find_placement
from bursar.core.spot.pool_choice import DeadlineChoice
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import StopJob, StopReason
from bursar.model.jobs.job import JobState
from bursar.model.tenants.tenant import Queueing


def move_deadline_jobs(draft: Draft) -> None:
    """Order the moves that are due, and keep room for those on their way.

    Where a budget lets nothing start, nothing is stopped: it could not go on.
    """
    for _, record in sorted(draft.state.backlogs.deadline_jobs.items()):
        if record.spec.queue in draft.state.budgets.holds:
            continue
        if record.state is JobState.STOPPING:
            _reserve_while_stopping(draft, record)
        elif (
            record.state is JobState.RUNNING and record.id not in draft.victims | draft.stop_ordered
        ):
            if record.spec.preemptible and not record.stop_requested:
                _move_if_due(draft, record)


def _move_if_due(draft: Draft, record: JobRecord) -> None:
    """Nothing moves towards room that is not there, or stops only to wait: it goes on where it is."""
    choice = DeadlineChoice.of(draft, record)
    if choice is None:
        return
    place = choice.place()
    if place in (WAIT, choice.progress.place):
        return
    if place != ON_DEMAND and (
        _is_in_strict_queue(draft, record) or not choice.has_time_to_move(place)
    ):
        return
    if not _reserve(draft, record, place):
        return
    draft.victims.add(record.id)
    draft.orders.append(StopJob(job_id=record.id, attempt=record.attempt, reason=StopReason.MOVE))


def _is_in_strict_queue(draft: Draft, record: JobRecord) -> bool:
    """Whether others may stand before it when it waits again: then nothing is risked for a lower price."""
    return draft.state.tenants[record.spec.queue].queueing is Queueing.STRICT


def _reserve_while_stopping(draft: Draft, record: JobRecord) -> None:
    choice = DeadlineChoice.of(draft, record)
    if choice is not None:
        _reserve(draft, record, choice.place())


def _reserve(draft: Draft, record: JobRecord, place: Location) -> bool:
    """Nobody else gets it in this cycle: the first place that will do, and its quota."""
    plan = record.backlog.plan
    for fit in plan.fits:
        if fit.is_spot is (place == ON_DEMAND) or (fit.is_spot and fit.pool.spec.name != place):
            continue
        request = fit.request(fit.min_counts)
        if not draft.state.quota.fits(record.spec.queue, request):
            continue
        if find_placement(fit, fit.min_counts, draft.search(record, fit)) is not None:
            draft.journal.charge(draft.state.quota, record.spec.queue, request)
            return True
    return False
