"""The least that anyone could have paid who knew the future: exact dynamic programmes.

Both rest on this. Progress is (ticks worked) x tick - (change-overs) x change-over as long as no stay
is shorter than its change-over. A stay that is shorter makes no progress, so leaving it out costs less
and delays nothing, and the least cost is found without such stays. With j change-overs the job
therefore needs exactly ``need(j)`` ticks of work, whatever their order, and the state needs no work
left: ticks gone, idle ticks and change-overs determine it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from bursar.core.deadline import DeadlineTerms
from bursar.model.units import HOUR_MS

Counts = NDArray[np.int64]
NEVER = -(10**9)
TOO_DEAR = 10**15


def optimum_of_one_pool(
    terms: DeadlineTerms, available: Sequence[int], price_micro_usd: int
) -> int:
    """One pool at one price, spell by spell.

    Within a spell of room there is no reason to begin late or leave early: the earlier tick on spot
    replaces a dearer one on demand, or an equal one, and no change-over is added. So the state after
    each spell is: where the job is, change-overs so far, idle ticks so far; its value the most spot
    ticks that can have been had. On-demand ticks are placed freely in the stretches given to them.
    """
    if price_micro_usd >= terms.on_demand_micro_usd:
        return _paid(terms, _need(terms, 1) * terms.on_demand_micro_usd)
    ticks = terms.ticks
    spells = [(room, len(list(group))) for room, group in groupby(map(bool, available[:ticks]))]
    most = _most_change_overs(terms, 2 * len(spells) + 1)
    idle = ticks - _need(terms, 1)
    spot_ticks = np.full((3, most + 1, idle + 1), NEVER, np.int64)
    spot_ticks[0, 0, 0] = 0
    for room, length in spells:
        spot_ticks = _after_spell(spot_ticks, room, length)
    best: Counts = spot_ticks.max(axis=0)
    paid = TOO_DEAR
    for change_overs in range(1, most + 1):
        need = _need(terms, change_overs)
        on_spot = int(best[change_overs, : ticks - need + 1].max())
        if on_spot >= 0:
            on_spot = min(on_spot, need)
            dear = (need - on_spot) * terms.on_demand_micro_usd
            paid = min(paid, on_spot * price_micro_usd + dear)
    return _paid(terms, paid)


def _after_spell(before: Counts, room: bool, length: int) -> Counts:
    """Spend the whole spell idle, on spot if there is room, or on demand."""
    anywhere = before.max(axis=0)
    after = np.full_like(before, NEVER)
    idle = before.shape[2]
    if length < idle:
        after[0, :, length:] = anywhere[:, : idle - length]
    if room:
        after[1, 1:] = anywhere[:-1] + length
    after[2] = before[2]
    np.maximum(after[2, 1:], anywhere[:-1], out=after[2, 1:])
    return after


def optimum_of_pools(terms: DeadlineTerms, prices_micro_usd: Sequence[Sequence[int]]) -> int:
    """Several pools whose prices move, tick by tick; 0 is no room. ``prices[tick][pool]``."""
    ticks = terms.ticks
    pools = len(prices_micro_usd[0])
    most = _most_change_overs(terms, ticks)
    need = [_need(terms, change_overs) for change_overs in range(most + 1)]
    idle = ticks - need[1]
    paid = np.full((pools + 2, most + 1, idle + 1), TOO_DEAR, np.int64)
    paid[0, 0, 0] = 0
    least = TOO_DEAR
    for tick in range(ticks):
        paid = _after_tick(paid, [*prices_micro_usd[tick], terms.on_demand_micro_usd])
        anywhere = paid.min(axis=0)
        for change_overs in range(1, most + 1):
            idled = tick + 1 - need[change_overs]
            if 0 <= idled <= idle:
                least = min(least, int(anywhere[change_overs, idled]))
    return _paid(terms, least)


def _after_tick(before: Counts, prices: Sequence[int]) -> Counts:
    """Spend the tick idle (place 0) or at one of the places that have a price."""
    anywhere = before.min(axis=0)
    after = np.full_like(before, TOO_DEAR)
    after[0, :, 1:] = anywhere[:, :-1]
    for place, price in enumerate(prices, start=1):
        if price > 0:
            after[place] = before[place]
            np.minimum(after[place, 1:], anywhere[:-1], out=after[place, 1:])
            after[place] += price
    return np.minimum(after, TOO_DEAR)


def _need(terms: DeadlineTerms, change_overs: int) -> int:
    return -(-(terms.work_ms + change_overs * terms.change_over_ms) // terms.tick_ms)


def _most_change_overs(terms: DeadlineTerms, limit: int) -> int:
    """More would leave too few ticks to work."""
    if not terms.change_over_ms:
        return limit
    spare_ms = terms.ticks * terms.tick_ms - terms.work_ms
    return min(limit, spare_ms // terms.change_over_ms)


def _paid(terms: DeadlineTerms, price_ticks: int) -> int:
    return round(price_ticks * terms.tick_ms / HOUR_MS)
