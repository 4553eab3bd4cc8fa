"""Our rule: the least expected cost to the deadline, given how spells were seen to come and go."""

from __future__ import annotations

from functools import lru_cache

from bursar.core.deadline.availability import expected_life_ms
from bursar.core.deadline.deadline_guard import can_wait_one_tick
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


def expected_cost(terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket) -> Location:
    """Choose the pool that is cheapest when its losses are counted; then spot, on demand or wait.

    What the table wishes is done only if the deadline stays within reach of on-demand capacity. A spot
    machine that is still there is not left for on-demand capacity while staying is safe: it makes the
    same progress for less.
    """
    if standing.remaining_ms <= 0:
        return WAIT
    offer = best_offer(terms, standing, market)
    wish = _wish(terms, standing, market, offer)
    if wish == ACT_WAIT and can_wait_one_tick(terms, standing, WAIT):
        return WAIT
    if offer is not None:
        if wish == ACT_SPOT and can_wait_one_tick(terms, standing, offer.pool):
            return offer.pool
        stays = standing.place not in (WAIT, ON_DEMAND) and market.offer_of(standing.place)
        if stays and can_wait_one_tick(terms, standing, standing.place):
            return standing.place
    return ON_DEMAND


def best_offer(
    terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket
) -> SpotOffer | None:
    """The pool whose useful hour costs least, and less than on demand.

    A pool that the job is in is left only if the lower price elsewhere pays for the move. That it may
    soon be lost is no reason: the move would then be made anyway, and perhaps never.
    """
    offers = market.offers
    if len(offers) == 1 and offers[0].price_micro_usd < terms.on_demand_micro_usd:
        return offers[0]
    worth = [one for one in offers if one.price_micro_usd < terms.on_demand_micro_usd]
    best = min(worth, key=lambda one: (_useful_hour(terms, standing, one), one.pool), default=None)
    here = next((one for one in worth if one.pool == standing.place), None)
    if best is None or here is None or best is here:
        return best
    # Saved only while both would have lasted; and there is a way back to pay for, too.
    useful_ms = min(_useful_ms(standing, best), _useful_ms(standing, here))
    moving = best.price_micro_usd * (useful_ms + 2 * terms.change_over_ms)
    return best if moving < here.price_micro_usd * useful_ms else here


def _useful_hour(terms: DeadlineTerms, standing: DeadlineProgress, offer: SpotOffer) -> float:
    """The price, with the change-over into the pool and the one after its loss spread over its life."""
    life_ms = expected_life_ms(offer.availability.age, offer.availability.up_step)
    useful_ms = _useful_ms(standing, offer)
    begins_ms = 0 if offer.pool == standing.place else terms.change_over_ms
    loss_ms = terms.change_over_ms + terms.rework_ms // 2
    lost_ms = loss_ms * useful_ms / life_ms
    return offer.price_micro_usd * (useful_ms + begins_ms + lost_ms) / useful_ms


def _useful_ms(standing: DeadlineProgress, offer: SpotOffer) -> int:
    life_ms = expected_life_ms(offer.availability.age, offer.availability.up_step)
    return max(1, min(life_ms, standing.remaining_ms))


def _wish(
    terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket, offer: SpotOffer | None
) -> int:
    on_demand = standing.place == ON_DEMAND
    if offer is None:
        # Pools that are dearer than on demand are as good as none.
        availability = market.whole._replace(up=False, age=0) if market.offers else market.whole
        price_micro_usd = market.price_micro_usd or terms.on_demand_micro_usd
        on_spot = False
    else:
        availability, price_micro_usd = offer.availability, offer.price_micro_usd
        on_spot = standing.place not in (WAIT, ON_DEMAND)
    price = max(1, min(PRICE_GRID, round(PRICE_GRID * price_micro_usd / terms.on_demand_micro_usd)))
    table = _table(terms, price, availability.up_step, market.whole.down_step)
    left_ms = terms.ticks * terms.tick_ms - standing.elapsed_ms
    row = row_of(availability, on_spot=on_spot, on_demand=on_demand)
    return table.action(row, left_ms, standing.remaining_ms + standing.pending_ms)


@lru_cache(maxsize=256)
def _table(terms: DeadlineTerms, price: int, up_step: int, down_step: int) -> ValueTable:
    """Jobs alike in work, change-over and step share tables, also across near deadlines.

    numpy is loaded here, when the first table is wanted: the whole core would load it otherwise.
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
