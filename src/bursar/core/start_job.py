"""Starts a job on one of its pools, or returns for each pool why it cannot start there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bursar.core.draft import Draft
from bursar.core.hold_reasons import no_capacity, over_quota, would_delay
from bursar.core.placement.find_placement import find_across, find_placement
from bursar.core.placement.pool_fit import Counts, PoolFit
from bursar.core.placement.search import Search
from bursar.core.reservation.plan_start import reservation_at_risk, spend_slack
from bursar.core.spot.pool_choice import Tiers
from bursar.core.state.job_record import JobRecord
from bursar.model.reason import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroupRange:
    """The requested and the minimum number of tasks of a group."""

    count: int
    min_count: int


def start_on_first_pool(draft: Draft, head: JobRecord, tiers: Tiers) -> list[Reason] | None:
    """Start a job on the first tier of pools that has capacity; returns None or all reasons."""
    plan = head.backlog.plan
    reasons: list[Reason] = []
    for fits in tiers:
        tier_reasons = start_on(draft, head, fits, plan.counts)
        if tier_reasons is None:
            return None
        if plan.is_elastic and start_smaller(draft, head, fits[0]):
            return None
        reasons += tier_reasons
    return reasons


def start_on(
    draft: Draft, head: JobRecord, fits: Sequence[PoolFit], counts: Counts
) -> list[Reason] | None:
    """Start a job on the best of these pools; returns None or one reason for each pool.

    Only a single task is offered several pools: a fleet that grew over years has many that differ in CPU
    and memory alone, and the best node is sought in all of them. A gang tries one pool at a time.
    """
    allowed = fits
    refused: dict[str, Reason] = {}
    if draft.state.limited or draft.planned:
        refused = _refusals(draft, head, fits, counts)
        if refused:
            allowed = [fit for fit in fits if fit.name not in refused]
            if not allowed:
                return [refused[fit.name] for fit in fits]
    if len(fits) > 1:
        search = draft.search(head, *allowed)
        choice = find_across(allowed, search)
        if choice is None:
            return [
                refused.get(fit.name) or _search_reason(draft, head, fit, counts, search)
                for fit in fits
            ]
        fit, allocation = choice
    else:
        fit = fits[0]
        if draft.no_capacity and (known := draft.known_no_capacity(fit, counts)) is not None:
            return [known]
        search = draft.search(head, fit)
        single = find_placement(fit, counts, search)
        if single is None:
            reason = _search_reason(draft, head, fit, counts, search)
            draft.remember_no_capacity(fit, counts, reason)
            return [reason]
        allocation = single
    if draft.is_last:
        draft.order_start(head, fit, allocation)
    else:
        draft.start(head, fit, allocation)
        spend_slack(draft, head, fit.request(counts))
    return None


def _refusals(
    draft: Draft, head: JobRecord, fits: Sequence[PoolFit], counts: Counts
) -> dict[str, Reason]:
    """By pool, why quota forbids the start: exceeded, or needed by a reservation."""
    state, queue = draft.state, head.spec.queue
    refused: dict[str, Reason] = {}
    for fit in fits:
        request = fit.request(counts)
        if not state.quota.fits(queue, request):
            refused[fit.name] = over_quota(state, queue, request)
        elif draft.planned:
            planned = reservation_at_risk(draft, head, request)
            if planned is not None:
                refused[fit.name] = would_delay(draft, head, planned)
    return refused


def _search_reason(
    draft: Draft, head: JobRecord, fit: PoolFit, counts: Counts, search: Search
) -> Reason:
    """Why a search of a pool failed: a reservation blocks it, or too little is free."""
    known = fit.known_no_capacity()
    if known is not None:
        return known
    if search.met_reservation and fit.blocked_at < 0:
        planned = [one for one in draft.planned if one.uses_pool_of(fit)]
        if planned:
            first = min(planned, key=lambda one: (one.at_ms, one.job_id))
            return would_delay(draft, head, first)
    reason = no_capacity(fit, counts, search)
    fit.remember_no_capacity(reason)
    return reason


def start_smaller(draft: Draft, head: JobRecord, fit: PoolFit) -> bool:
    """Start an elastic gang with as many tasks as fit, at least its minimum."""
    plan = head.backlog.plan
    quota, queue = draft.state.quota, head.spec.queue

    def fits(counts: Counts) -> bool:
        if not quota.fits(queue, fit.request(counts)):
            return False
        mark = draft.journal.mark
        allocation = find_placement(fit, counts, draft.search(head, fit))
        draft.journal.roll_back(mark)
        return allocation is not None

    ranges = [
        TaskGroupRange(count=count, min_count=least)
        for count, least in zip(plan.counts, fit.min_counts, strict=True)
    ]
    counts = largest_fitting_counts(ranges, fits)
    return counts is not None and start_on(draft, head, (fit,), counts) is None


def largest_fitting_counts(
    groups: Sequence[TaskGroupRange], fits: Callable[[tuple[int, ...]], bool]
) -> tuple[int, ...] | None:
    """The largest task counts for which ``fits`` holds, by binary search.

    All groups shrink in proportion to what each can spare. ``fits`` must be monotonic: true for every
    smaller job once it is true for one. None when no group can shrink or the smallest job does not fit.
    """
    spare = sum(group.count - group.min_count for group in groups)
    if spare <= 0:
        return None
    low, high = 0, spare
    if not fits(_shrink(groups, spare, spare)):
        return None
    while low < high:
        middle = (low + high) // 2
        if fits(_shrink(groups, middle, spare)):
            high = middle
        else:
            low = middle + 1
    return _shrink(groups, high, spare)


def _shrink(groups: Sequence[TaskGroupRange], fewer: int, spare: int) -> tuple[int, ...]:
    return tuple(group.count - (group.count - group.min_count) * fewer // spare for group in groups)
