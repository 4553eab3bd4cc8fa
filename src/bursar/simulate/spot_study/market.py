"""The spot market at each tick: offers, and availability estimates from the history up to then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.deadline.availability import AvailabilityTracker
from bursar.core.deadline.inputs import SpotMarket, SpotOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTrack:
    """The hourly price of a spot pool at each tick; 0 means no capacity.

    ``listed_micro_usd`` is its price before the first tick, 0 if unknown.
    """

    pool: str
    prices_micro_usd: Sequence[int]
    listed_micro_usd: int = 0


def markets(tracks: Sequence[PoolTrack], tick_ms: int) -> list[SpotMarket]:
    """Returns the market at each tick, estimated from that tick and those before it only.

    Ticks with the same offers and estimates share one value.
    """
    ordered = sorted(tracks, key=lambda track: track.pool)
    trackers = [AvailabilityTracker() for _ in ordered]
    any_pool = AvailabilityTracker()
    last = min((one.listed_micro_usd for one in tracks if one.listed_micro_usd > 0), default=0)
    known: dict[SpotMarket, SpotMarket] = {}
    result = []
    for prices in zip(*(track.prices_micro_usd for track in ordered), strict=True):
        offers = []
        for track, tracker, price in zip(ordered, trackers, prices, strict=True):
            availability = tracker.observe(price > 0, tick_ms)
            if price > 0:
                offers.append(SpotOffer(track.pool, price, availability))
        last = min((offer.price_micro_usd for offer in offers), default=last)
        market = SpotMarket(tuple(offers), any_pool.observe(bool(offers), tick_ms), last)
        result.append(known.setdefault(market, market))
    return result
