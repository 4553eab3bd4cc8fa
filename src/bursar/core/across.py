"""Start one task in any of several pools that are equally good but for the nodes they offer.

A fleet that grew over years has many pools: nodes of one price differ in CPU, memory and model. Which of
them a task takes is a question about nodes, so the placement policy answers it over all of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.draft import Draft
from bursar.core.line import JobRecord
from bursar.core.placement import find_across
from bursar.core.reserve import spend_slack, takes_kept_quota
from bursar.core.search import Search
from bursar.core.shape import PoolFit
from bursar.core.why import no_room, over_quota, would_delay
from bursar.model.reason import Reason


def start_on_any(
    draft: Draft, head: JobRecord, fits: Sequence[PoolFit]
) -> tuple[Reason, ...] | None:
    """Start a job of one task on the best node of all these pools, or say what stands in its way.

    None when it was started; else one reason for each pool, in the order of the pools.
    """
    allowed: Sequence[PoolFit] = fits
    refused: dict[str, Reason] = {}
    if draft.state.limited or draft.planned:
        refused = {
            fit.pool.spec.name: reason
            for fit in fits
            if (reason := _quota_reason(draft, head, fit)) is not None
        }
        allowed = [fit for fit in fits if fit.pool.spec.name not in refused]
    search = _search(draft, head, allowed)
    found = find_across(allowed, search) if allowed else None
    if found is not None:
        fit, room = found
        draft.start(head, fit, room)
        if draft.planned:
            spend_slack(draft, head, fit.request(fit.plan.counts))
        return None
    return tuple(
        [
            refused.get(fit.pool.spec.name) or _room_reason(draft, head, fit, search)
            if refused or fit.no_room is None or fit.no_room_at != fit.pool.changes
            else fit.no_room
            for fit in fits
        ]
    )


def _quota_reason(draft: Draft, head: JobRecord, fit: PoolFit) -> Reason | None:
    """Why quota keeps a job off a pool, now or until a planned start."""
    request = fit.request(fit.plan.counts)
    if request and not draft.state.quota.fits(head.spec.queue, request):
        return over_quota(draft.state, head.spec.queue, request)
    planned = takes_kept_quota(draft, head, request) if draft.planned else None
    return None if planned is None else would_delay(draft, head, planned)


def _search(draft: Draft, head: JobRecord, fits: Sequence[PoolFit]) -> Search:
    """One try over all the pools, around what is reserved in any of them."""
    search = draft.search(head, head.line.plan.fits[0])
    if draft.reserved:
        search.reserved = {
            node: at_ms
            for fit in fits
            for node, at_ms in draft.reserved.get(fit.pool.spec.name, {}).items()
        }
    return search


def _room_reason(draft: Draft, head: JobRecord, fit: PoolFit, search: Search) -> Reason:
    """Why a pool has no room. It holds for as long as nothing changes in the pool."""
    pool = fit.pool
    if fit.blocked_at < 0 and search.met_reservation:
        planned = [one for one in draft.planned if one.touches(fit)]
        if planned:
            first = min(planned, key=lambda one: (one.at_ms, one.job_id))
            return would_delay(draft, head, first)
    if fit.no_room is None or fit.no_room_at != pool.changes:
        fit.no_room = no_room(fit, fit.plan.counts, search)
        fit.no_room_at = pool.changes
    return fit.no_room
