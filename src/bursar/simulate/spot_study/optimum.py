"""The least possible cost with knowledge of the future, by exact dynamic programming.

Both programmes use this: progress is (ticks worked) x tick - (change-overs) x change-over, provided
that no stay is shorter than its change-over. A shorter stay makes no progress, so an optimum without
such stays exists. With j change-overs the job therefore needs exactly ``need(j)`` ticks of work in any
order, and the state need not contain the remaining work: the elapsed ticks, idle ticks and
change-overs determine it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from bursar.core.deadline.inputs import DeadlineTerms
from bursar.model.units import HOUR_MS

Counts = NDArray[np.int64]
UNREACHABLE = -(10**9)
INFINITE_COST = 10**15


def optimum_of_one_pool(
    terms: DeadlineTerms, available: Sequence[int], price_micro_usd: int
) -> int:
    """Returns the least cost for one pool at a constant price, interval by interval.

    Within an interval of availability it never pays to start late or leave early: an earlier spot tick
    replaces an on-demand tick or a spot tick at no extra change-over. So the state after each interval
    is where the job is, the change-overs and the idle ticks so far; its value is the most spot ticks
    that are possible. On-demand ticks may be anywhere in the intervals assigned to on-demand.
    """
    if price_micro_usd >= terms.on_demand_micro_usd:
        return _paid(terms, _need(terms, 1) * terms.on_demand_micro_usd)
    ticks = terms.ticks
    intervals = [
        (has_spot, len(list(group))) for has_spot, group in groupby(map(bool, available[:ticks]))
    ]
    most = _most_change_overs(terms, 2 * len(intervals) + 1)
    idle = ticks - _need(terms, 1)
    spot_ticks = np.full((3, most + 1, idle + 1), UNREACHABLE, np.int64)
    spot_ticks[0, 0, 0] = 0
    for has_spot, length in intervals:
        spot_ticks = _after_interval(spot_ticks, has_spot, length)
    best: Counts = spot_ticks.max(axis=0)
    paid = INFINITE_COST
    for change_overs in range(1, most + 1):
        need = _need(terms, change_overs)
        on_spot = int(best[change_overs, : ticks - need + 1].max())
        if on_spot >= 0:
            on_spot = min(on_spot, need)
            on_demand_cost = (need - on_spot) * terms.on_demand_micro_usd
            paid = min(paid, on_spot * price_micro_usd + on_demand_cost)
    return _paid(terms, paid)


def _after_interval(before: Counts, has_spot: bool, length: int) -> Counts:
    """Spends the interval idle, on spot if available, or on demand."""
    anywhere = before.max(axis=0)
    after = np.full_like(before, UNREACHABLE)
    idle = before.shape[2]
    if length < idle:
        after[0, :, length:] = anywhere[:, : idle - length]
    if has_spot:
        after[1, 1:] = anywhere[:-1] + length
    after[2] = before[2]
    np.maximum(after[2, 1:], anywhere[:-1], out=after[2, 1:])
    return after


def optimum_of_pools(terms: DeadlineTerms, prices_micro_usd: Sequence[Sequence[int]]) -> int:
    """Returns the least cost for several pools with changing prices, tick by tick.

    The index of the prices is ``[tick][pool]``; 0 means no capacity.
    """
    ticks = terms.ticks
    pools = len(prices_micro_usd[0])
    most = _most_change_overs(terms, ticks)
    need = [_need(terms, change_overs) for change_overs in range(most + 1)]
    idle = ticks - need[1]
    paid = np.full((pools + 2, most + 1, idle + 1), INFINITE_COST, np.int64)
    paid[0, 0, 0] = 0
    least = INFINITE_COST
    for tick in range(ticks):
        paid = _after_tick(paid, [*prices_micro_usd[tick], terms.on_demand_micro_usd])
        anywhere = paid.min(axis=0)
        for change_overs in range(1, most + 1):
            idle_ticks = tick + 1 - need[change_overs]
            if 0 <= idle_ticks <= idle:
                least = min(least, int(anywhere[change_overs, idle_ticks]))
    return _paid(terms, least)


def _after_tick(before: Counts, prices: Sequence[int]) -> Counts:
    """Spends the tick idle (place 0) or at one of the places that have a price."""
    anywhere = before.min(axis=0)
    after = np.full_like(before, INFINITE_COST)
    after[0, :, 1:] = anywhere[:, :-1]
    for place, price in enumerate(prices, start=1):
        if price > 0:
            after[place] = before[place]
            np.minimum(after[place, 1:], anywhere[:-1], out=after[place, 1:])
            after[place] += price
    return np.minimum(after, INFINITE_COST)


def _need(terms: DeadlineTerms, change_overs: int) -> int:
    return -(-(terms.work_ms + change_overs * terms.change_over_ms) // terms.tick_ms)


def _most_change_overs(terms: DeadlineTerms, limit: int) -> int:
    """The most change-overs that leave enough ticks for the work."""
    if not terms.change_over_ms:
        return limit
    spare_ms = terms.ticks * terms.tick_ms - terms.work_ms
    return min(limit, spare_ms // terms.change_over_ms)


def _paid(terms: DeadlineTerms, price_ticks: int) -> int:
    return round(price_ticks * terms.tick_ms / HOUR_MS)
