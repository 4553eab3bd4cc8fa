"""Our rule: the least expected cost until the deadline, given each pool's availability."""

from __future__ import annotations

from functools import lru_cache

from bursar.core.deadline.availability import expected_life_ms
from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    SpotMarket,
    SpotOffer,
)
from bursar.core.deadline.policy_table import (
    ACT_SPOT,
    ACT_WAIT,
    PRICE_GRID,
    STEPS_IN_A_BLOCK,
    UNITS_PER_STEP,
    TableKey,
    ValueTable,
    row_of,
    step_for,
)


def expected_cost(terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket) -> Location:
    """Choose the cheapest pool, interruptions included; then spot, on demand or wait.

    The table's action is taken only if on-demand capacity could still meet the deadline. A spot machine is
    not left for on-demand capacity while staying is safe: it makes the same progress for less.
    """
    if progress.remaining_ms <= 0:
        return WAIT
    offer = best_offer(terms, progress, market)
    action = _best_action(terms, progress, market, offer)
    if action == ACT_WAIT and can_wait_one_tick(terms, progress, WAIT):
        return WAIT
    if offer is not None:
        if action == ACT_SPOT and can_wait_one_tick(terms, progress, offer.pool):
            return offer.pool
        stays = progress.location not in (WAIT, ON_DEMAND) and market.offer_of(progress.location)
        if stays and can_wait_one_tick(terms, progress, progress.location):
            return progress.location
    return ON_DEMAND


def can_wait_one_tick(terms: DeadlineTerms, progress: DeadlineProgress, location: Location) -> bool:
    """Whether on-demand capacity, started at the next tick, would still finish in time.

    It checks the end of the tick, not its start: otherwise the decision comes one tick late. On-demand
    capacity is always allowed; a job that meets this condition on every other tick meets its deadline
    (proof in docs/decisions/0017-deadlines.md).
    """
    if location == ON_DEMAND:
        return True
    left_ms = _remaining_after(terms, progress, location)
    if left_ms <= 0:
        return True
    if location != WAIT:
        left_ms += terms.rework_ms
    ticks_after = terms.ticks - progress.elapsed_ms // terms.tick_ms - 1
    return left_ms + terms.change_over_ms <= ticks_after * terms.tick_ms


def _remaining_after(terms: DeadlineTerms, progress: DeadlineProgress, location: Location) -> int:
    """The remaining work after one tick at a location."""
    if location == WAIT:
        return progress.remaining_ms
    pending_ms = progress.pending_ms if location == progress.location else terms.change_over_ms
    return progress.remaining_ms - max(0, terms.tick_ms - pending_ms)


def best_offer(
    terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket
) -> SpotOffer | None:
    """The pool whose useful hour costs least, and less than on demand.

    A job leaves its pool only if the lower price elsewhere pays for the move. A likely loss of its pool is no
    reason: after a loss the job moves anyway.
    """
    offers = market.offers
    if len(offers) == 1 and offers[0].price_micro_usd < terms.on_demand_micro_usd:
        return offers[0]
    cheaper = [one for one in offers if one.price_micro_usd < terms.on_demand_micro_usd]
    best = min(
        cheaper, key=lambda one: (_useful_hour(terms, progress, one), one.pool), default=None
    )
    current = next((one for one in cheaper if one.pool == progress.location), None)
    if best is None or current is None or best is current:
        return best
    # The saving lasts only while both pools are available, and the move back costs a change-over too.
    useful_ms = min(_useful_ms(progress, best), _useful_ms(progress, current))
    moving = best.price_micro_usd * (useful_ms + 2 * terms.change_over_ms)
    return best if moving < current.price_micro_usd * useful_ms else current


def _useful_hour(terms: DeadlineTerms, progress: DeadlineProgress, offer: SpotOffer) -> float:
    """The price of a useful hour, with the change-overs before and after spread over it."""
    life_ms = expected_life_ms(offer.availability.age, offer.availability.up_step)
    useful_ms = _useful_ms(progress, offer)
    begins_ms = 0 if offer.pool == progress.location else terms.change_over_ms
    loss_ms = terms.change_over_ms + terms.rework_ms // 2
    lost_ms = loss_ms * useful_ms / life_ms
    return offer.price_micro_usd * (useful_ms + begins_ms + lost_ms) / useful_ms


def _useful_ms(progress: DeadlineProgress, offer: SpotOffer) -> int:
    life_ms = expected_life_ms(offer.availability.age, offer.availability.up_step)
    return max(1, min(life_ms, progress.remaining_ms))


def _best_action(
    terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket, offer: SpotOffer | None
) -> int:
    """The table's action for a job."""
    on_demand = progress.location == ON_DEMAND
    if offer is None:
        # Pools that cost more than on demand count as unavailable.
        availability = (
            market.combined._replace(up=False, age=0) if market.offers else market.combined
        )
        price_micro_usd = market.price_micro_usd or terms.on_demand_micro_usd
        on_spot = False
    else:
        availability, price_micro_usd = offer.availability, offer.price_micro_usd
        on_spot = progress.location not in (WAIT, ON_DEMAND)
    price = max(1, min(PRICE_GRID, round(PRICE_GRID * price_micro_usd / terms.on_demand_micro_usd)))
    table = _table(terms, price, availability.up_step, market.combined.down_step)
    left_ms = terms.ticks * terms.tick_ms - progress.elapsed_ms
    row = row_of(availability, on_spot=on_spot, on_demand=on_demand)
    return table.action(row, left_ms, progress.remaining_ms + progress.pending_ms)


@lru_cache(maxsize=256)
def _table(terms: DeadlineTerms, price: int, up_step: int, down_step: int) -> ValueTable:
    """The table of a job; jobs with the same work, change-over and step share one.

    numpy is imported on first use, so that the core does not load it.
    """
    from bursar.core.deadline.policy_solver import value_table

    step_ms = step_for(terms.deadline_ms)
    blocks = -(-terms.deadline_ms // (step_ms * STEPS_IN_A_BLOCK))
    change_over_ms = terms.change_over_ms + terms.rework_ms // 2
    return value_table(
        TableKey(
            step_ms=step_ms,
            steps=blocks * STEPS_IN_A_BLOCK,
            units=-(-(terms.work_ms + change_over_ms) * UNITS_PER_STEP // step_ms) + 1,
            change_over_ms=change_over_ms,
            price=price,
            up_step=up_step,
            down_step=down_step,
        )
    )
