"""Rules that others published: the bars that ours has to pass."""

from __future__ import annotations

from bursar.core.deadline.deadline_guard import published_net_holds
from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    SpotMarket,
)


def on_demand_only(
    _terms: DeadlineTerms, standing: DeadlineProgress, _market: SpotMarket
) -> Location:
    """Never trust spot."""
    return ON_DEMAND if standing.remaining_ms > 0 else WAIT


def greedy(terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket) -> Location:
    """Spot whenever there is some, until only on-demand capacity can meet the deadline."""
    if standing.remaining_ms <= 0:
        return WAIT
    if _is_kept(standing, market):
        return standing.place
    if not published_net_holds(terms, standing):
        return ON_DEMAND
    return _cheapest(market)


def uniform_progress(
    terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket
) -> Location:
    """Keep to a straight line from nothing at the start to all work at the deadline (NSDI'24).

    Behind the backlog it takes on-demand capacity, and holds it until there is spot and the job is ahead
    by two change-overs.
    """
    if standing.remaining_ms <= 0:
        return WAIT
    if _is_kept(standing, market):
        return standing.place
    if not published_net_holds(terms, standing):
        return ON_DEMAND
    spot = _cheapest(market)
    done = (terms.work_ms - standing.remaining_ms) * terms.deadline_ms
    if standing.place == ON_DEMAND:
        backlog = (standing.elapsed_ms + 2 * terms.change_over_ms) * terms.work_ms
        return spot if spot != WAIT and done >= backlog else ON_DEMAND
    if spot != WAIT:
        return spot
    return ON_DEMAND if done < standing.elapsed_ms * terms.work_ms else WAIT


def _is_kept(standing: DeadlineProgress, market: SpotMarket) -> bool:
    return market.offer_of(standing.place) is not None


def _cheapest(market: SpotMarket) -> Location:
    if len(market.offers) == 1:
        return market.offers[0].pool
    best = min(market.offers, key=lambda one: (one.price_micro_usd, one.pool), default=None)
    return best.pool if best else WAIT
