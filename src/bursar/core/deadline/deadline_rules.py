"""The deadline rules by name: published ones, the baselines that ours is compared with, and ours."""

from __future__ import annotations

from bursar.core.deadline.expected_cost import expected_cost
from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    Policy,
    SpotMarket,
)


def on_demand_only(
    _terms: DeadlineTerms, progress: DeadlineProgress, _market: SpotMarket
) -> Location:
    """Never use spot."""
    return ON_DEMAND if progress.remaining_ms > 0 else WAIT


def greedy(terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket) -> Location:
    """Use spot whenever it is available, until only on-demand capacity can meet the deadline."""
    if progress.remaining_ms <= 0:
        return WAIT
    if market.offer_of(progress.location) is not None:
        return progress.location
    if not _safety_net_holds(terms, progress):
        return ON_DEMAND
    return _cheapest(market)


def uniform_progress(
    terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket
) -> Location:
    """Follow a straight line of progress from the start to the deadline (NSDI'24).

    A job behind the line takes on-demand capacity and stays there until spot is available and it is ahead of
    the line by two change-overs.
    """
    if progress.remaining_ms <= 0:
        return WAIT
    if market.offer_of(progress.location) is not None:
        return progress.location
    if not _safety_net_holds(terms, progress):
        return ON_DEMAND
    spot = _cheapest(market)
    done = (terms.work_ms - progress.remaining_ms) * terms.deadline_ms
    if progress.location == ON_DEMAND:
        line = (progress.elapsed_ms + 2 * terms.change_over_ms) * terms.work_ms
        return spot if spot != WAIT and done >= line else ON_DEMAND
    if spot != WAIT:
        return spot
    return ON_DEMAND if done < progress.elapsed_ms * terms.work_ms else WAIT


def _safety_net_holds(terms: DeadlineTerms, progress: DeadlineProgress) -> bool:
    """The safety net of Uniform Progress: two change-overs and one tick of slack."""
    tick_ms = terms.tick_ms
    left = (terms.deadline_ms - progress.elapsed_ms) // tick_ms
    needed = -(-(progress.remaining_ms + 2 * terms.change_over_ms) // tick_ms)
    return left >= needed + 1


def _cheapest(market: SpotMarket) -> Location:
    if len(market.offers) == 1:
        return market.offers[0].pool
    best = min(market.offers, key=lambda one: (one.price_micro_usd, one.pool), default=None)
    return best.pool if best else WAIT


POLICIES: dict[str, Policy] = {
    "on-demand": on_demand_only,
    "greedy": greedy,
    "uniform-progress": uniform_progress,
    "expected-cost": expected_cost,
}
"""By name, ours last."""
