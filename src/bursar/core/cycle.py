"""One scheduling cycle: every waiting job gets exactly one answer.

``decide`` is pure to its callers: it drafts on the live state and always takes the draft back.
"""

from __future__ import annotations

from typing import Final

from bursar.core.across import start_on_any
from bursar.core.attempt_limits import stop_at_limit
from bursar.core.charge import run_time_of
from bursar.core.claims import serve_claims
from bursar.core.draft import Draft, PlannedStart, hold_for
from bursar.core.evacuation import evacuate, reopen_the_avoided
from bursar.core.levels import levels_of, order_for
from bursar.core.line import JobRecord, KindLine
from bursar.core.moves import steer
from bursar.core.notices import who_must_leave
from bursar.core.over_budget import stop_what_is_over_budget, who_must_stop
from bursar.core.partial import TaskGroupRange, largest_fitting_counts
from bursar.core.placement import find_room
from bursar.core.reserve import keep, plan_start, spend_slack, takes_kept_quota
from bursar.core.shape import Counts, PoolFit
from bursar.core.spot_course import Tiers, course_of
from bursar.core.state import FleetState
from bursar.core.takeover import may_ever, take_over
from bursar.core.why import no_room, over_quota, with_plan, would_delay
from bursar.model.decision import Decision, Hold, StopJob, StopReason
from bursar.model.job import JobState
from bursar.model.reason import BehindHead, NeverFits, Reason, WaitsForJobs, WaitsForSpot
from bursar.model.tenant import Queueing

_STRICT: Final = Queueing.STRICT


def decide(state: FleetState, now_ms: int) -> tuple[Decision, ...]:
    """Cover every waiting job with one answer: start it here, or hold its kind because."""
    if nothing_to_answer(state, now_ms):
        return ()
    draft = Draft(state, now_ms)
    try:
        if state.to_stop or state.limits:
            stop_what_is_over(draft)
        if state.notices:
            evacuate(draft)
        if state.budgets.stops:
            stop_what_is_over_budget(draft)
        if state.blocked:
            hold_the_dependent(draft)
        if state.claims:
            serve_claims(draft)
        if state.book.steered:
            steer(draft)
        blocked_queues: dict[str, tuple[Reason, ...]] = {**state.budgets.holds}
        for lines in levels_of(draft):
            walk(draft, lines, blocked_queues)
        return draft.decisions()
    finally:
        draft.undo()


def nothing_to_answer(state: FleetState, now_ms: int) -> bool:
    """Whether nobody waits, is to be stopped, or has run for too long: an empty cycle is free."""
    if state.active or state.claims or state.blocked or state.to_stop or state.book.steered:
        return False
    if state.notices and who_must_leave(state):
        return False
    if state.budgets.stops and who_must_stop(state):
        return False
    return not state.limits or state.limits[0][0] > now_ms


def stop_what_is_over(draft: Draft) -> None:
    """Stop what its user cancelled and what has reached its maximum run time or cost."""
    for job_id, record in sorted(draft.state.to_stop.items()):
        draft.orders.append(
            StopJob(job_id=job_id, attempt=record.attempt, reason=StopReason.CANCELLED)
        )
        draft.over.add(job_id)
    for limit_ms, job_id in draft.state.limits:
        if limit_ms > draft.now_ms:
            break
        record = draft.state.jobs[job_id]
        if record.state is JobState.RUNNING:
            draft.orders.append(stop_at_limit(record, draft.now_ms))
            draft.over.add(job_id)


def hold_the_dependent(draft: Draft) -> None:
    """Jobs that wait for others wait together when they are alike and wait for the same.

    Their holds stay as they are until one of them or one they wait for changes, so that many who wait
    cost a cycle nothing.
    """
    if draft.state.dependent_holds is None:
        draft.state.dependent_holds = holds_of_the_dependent(draft.state)
    draft.holds += draft.state.dependent_holds


def holds_of_the_dependent(state: FleetState) -> tuple[Hold, ...]:
    """One hold for all jobs of a kind that wait for the same jobs."""
    groups: dict[tuple[int, frozenset[str]], list[JobRecord]] = {}
    for record in state.blocked.values():
        groups.setdefault((id(record.line), record.unmet), []).append(record)
    holds: list[Hold] = []
    for (_, unmet), records in groups.items():
        failed = tuple(sorted(job for job in unmet if job in state.finished))
        reason = WaitsForJobs(jobs=tuple(sorted(unmet)), failed=failed)
        holds.append(hold_for(records, (reason,)))
    return tuple(holds)


def walk(
    draft: Draft, lines: list[KindLine], blocked_queues: dict[str, tuple[Reason, ...]]
) -> None:
    """Start what can start among lines of equal urgency, the most deserving first.

    ``blocked_queues`` are queues in which nothing starts, and why: a budget is spent, or the queue is
    strict and nobody passes its blocked head.
    """
    order = order_for(draft, lines)
    is_alone = len(draft.state.active) == 1
    while (line := order.next()) is not None:
        head = line.head()
        assert head is not None
        queue = line.kind.queue
        if queue in blocked_queues:
            draft.hold(line, head, blocked_queues[queue])
            order.drop()
            continue
        if is_alone:
            draft.is_last = draft.waiting(line) == 1
        reasons = answer(draft, line, head)
        if not reasons:
            if draft.is_last:
                return
            draft.take(line, head)
            order.started()
            continue
        draft.hold(line, head, reasons)
        if draft.state.tenants[queue].queueing is _STRICT and not waits_by_choice(reasons):
            blocked_queues[queue] = (BehindHead(queue=queue, head=head.id),)
        order.drop()


def waits_by_choice(reasons: tuple[Reason, ...]) -> bool:
    """Whether a job could start and would rather wait: then it is in nobody's way."""
    return isinstance(reasons[0], WaitsForSpot)


def answer(draft: Draft, line: KindLine, head: JobRecord) -> tuple[Reason, ...]:
    """Start the head of a line, or make room for it, or say why not."""
    plan = line.plan
    if not plan.fits:
        return (NeverFits(problem=plan.problem),)
    tiers, fits = plan.tiers, plan.fits
    if plan.minds_spot:
        course = course_of(draft, head)
        if course.waits is not None:
            return (course.waits,)
        tiers, fits = course.tiers, course.fits
    reasons = start_somewhere(draft, head, tiers)
    if reasons is None:
        return ()
    if draft.state.notices:
        with reopen_the_avoided(draft, plan) as there_are_some:
            if there_are_some and start_somewhere(draft, head, tiers) is None:
                return ()
    limits = draft.state.policies.preemption
    for fit in fits:
        if draft.victim_searches >= limits.searches_per_cycle:
            break
        if take_over(draft, head, fit, fit.min_counts):
            return ()
    planned = reserve(draft, head)
    if planned is None:
        return tuple(reasons)
    return tuple(with_plan(reason, planned) for reason in reasons)


def start_somewhere(draft: Draft, head: JobRecord, tiers: Tiers) -> list[Reason] | None:
    """Start a job on the first pool that can take it, or say what stands in its way on each."""
    plan = head.line.plan
    reasons: list[Reason] = []
    for tier in tiers:
        if len(tier) > 1:
            missing = start_on_any(draft, head, tier)
            if missing is None:
                return None
            reasons += missing
            continue
        fit = tier[0]
        reason = start_on(draft, head, fit, plan.counts)
        if reason is None:
            return None
        if plan.is_elastic and start_smaller(draft, head, fit):
            return None
        reasons.append(reason)
    return reasons


def start_on(draft: Draft, head: JobRecord, fit: PoolFit, counts: Counts) -> Reason | None:
    """Start a job of this size on one pool, or say what stands in its way there."""
    state = draft.state
    request = fit.request(counts)
    if not state.quota.fits(head.spec.queue, request):
        return over_quota(state, head.spec.queue, request)
    planned = takes_kept_quota(draft, head, request) if draft.planned else None
    if planned is not None:
        return would_delay(draft, head, planned)
    if draft.no_room:
        known = draft.no_room.get((fit.plan.room_key, fit.name, counts))
        if known is not None:
            return known
    search = draft.search(head, fit)
    search.is_last = draft.is_last
    room = find_room(fit, counts, search)
    if room is not None:
        if draft.is_last:
            draft.order_start(head, fit, room)
        else:
            draft.start(head, fit, room)
            spend_slack(draft, head, request)
        return None
    if search.met_reservation:
        first = min(
            (one for one in draft.planned if one.touches(fit)),
            key=lambda one: (one.at_ms, one.job_id),
        )
        return would_delay(draft, head, first)
    reason = no_room(fit, counts, search)
    draft.no_room[fit.plan.room_key, fit.name, counts] = reason
    return reason


def start_smaller(draft: Draft, head: JobRecord, fit: PoolFit) -> bool:
    """Start an elastic gang with as many tasks as fit, at least its minimum."""
    plan = head.line.plan
    quota, queue = draft.state.quota, head.spec.queue

    def fits(counts: Counts) -> bool:
        if not quota.fits(queue, fit.request(counts)):
            return False
        mark = draft.journal.mark
        room = find_room(fit, counts, draft.search(head, fit))
        draft.journal.roll_back(mark)
        return room is not None

    ranges = [
        TaskGroupRange(count=count, min_count=least)
        for count, least in zip(plan.counts, fit.min_counts, strict=True)
    ]
    counts = largest_fitting_counts(ranges, fits)
    return counts is not None and start_on(draft, head, fit, counts) is None


def reserve(draft: Draft, head: JobRecord) -> PlannedStart | None:
    """Keep nodes for a blocked job while the policy has reservations left."""
    backfill = draft.state.policies.backfill
    if len(draft.planned) >= backfill.reservations:
        return None
    if run_time_of(head.spec) is None:
        if draft.now_ms - head.submitted_at_ms < backfill.patience_ms:
            return None
    plans = [
        planned
        for fit in head.line.plan.fits
        if may_ever(draft.state.quota, head.spec.queue, fit.request(fit.min_counts))
        and (planned := plan_start(draft, head, fit)) is not None
    ]
    if not plans:
        return None
    best = min(plans, key=lambda planned: (planned.at_ms, planned.pool, planned.beside))
    keep(draft, best)
    return best
