"""The spot market at each tick: offers, and availability estimates from the history up to then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.deadline.availability import AvailabilityEstimate, AvailabilityTracker
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
    """Returns the market at each tick, estimated from that tick and those before it only."""
    if len(tracks) == 1:
        return _single_pool_markets(tracks[0], tick_ms)
    ordered = sorted(tracks, key=lambda track: track.pool)
    trackers = [AvailabilityTracker() for _ in ordered]
    any_pool = AvailabilityTracker()
    last = _listed_price(ordered)
    known: dict[SpotOffer, SpotOffer] = {}
    result = []
    for prices in zip(*(track.prices_micro_usd for track in ordered), strict=True):
        offers = []
        for track, tracker, price in zip(ordered, trackers, prices, strict=True):
            availability = tracker.observe(price > 0, tick_ms)
            if price > 0:
                offer = SpotOffer(track.pool, price, availability)
                offers.append(known.setdefault(offer, offer))
        last = min((offer.price_micro_usd for offer in offers), default=last)
        result.append(SpotMarket(tuple(offers), any_pool.observe(bool(offers), tick_ms), last))
    return result


def _single_pool_markets(track: PoolTrack, tick_ms: int) -> list[SpotMarket]:
    """Ticks with the same offer and estimate share one value."""
    tracker = AvailabilityTracker()
    last = _listed_price([track])
    known: dict[tuple[AvailabilityEstimate, int], SpotMarket] = {}
    result = []
    for price in track.prices_micro_usd:
        availability = tracker.observe(price > 0, tick_ms)
        last = price or last
        market = known.get((availability, last))
        if market is None:
            offers = (SpotOffer(track.pool, price, availability),) if price > 0 else ()
            market = known[availability, last] = SpotMarket(offers, availability, last)
        result.append(market)
    return result


def _listed_price(tracks: Sequence[PoolTrack]) -> int:
    """The lowest price known before the first tick; 0 if none."""
    known = (track.listed_micro_usd for track in tracks if track.listed_micro_usd > 0)
    return min(known, default=0)
