"""What a job could have seen at each tick: the offers, and what the past up to then says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.deadline import AvailabilityEstimate, AvailabilityTracker, SpotMarket, SpotOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTrack:
    """One spot pool over time: its price per hour at each tick, 0 where it has no room.

    ``listed_micro_usd`` is its price before the first tick, 0 if that is not known.
    """

    pool: str
    prices_micro_usd: Sequence[int]
    listed_micro_usd: int = 0


def one_price(pool: str, available: Sequence[int], price_micro_usd: int) -> PoolTrack:
    """A pool whose price does not change."""
    return PoolTrack(
        pool=pool,
        prices_micro_usd=[price_micro_usd if room else 0 for room in available],
        listed_micro_usd=price_micro_usd,
    )


def markets(tracks: Sequence[PoolTrack], tick_ms: int) -> list[SpotMarket]:
    """A fold over the ticks: the market at a tick knows that tick and those before it, nothing else."""
    if len(tracks) == 1:
        return _of_one(tracks[0], tick_ms)
    ordered = sorted(tracks, key=lambda track: track.pool)
    books = [AvailabilityTracker() for _ in ordered]
    whole = AvailabilityTracker()
    last = _listed_price(ordered)
    known: dict[SpotOffer, SpotOffer] = {}
    made = []
    for prices in zip(*(track.prices_micro_usd for track in ordered), strict=True):
        offers = []
        for track, book, price in zip(ordered, books, prices, strict=True):
            availability = book.observe(price > 0, tick_ms)
            if price > 0:
                offer = SpotOffer(track.pool, price, availability)
                offers.append(known.setdefault(offer, offer))
        last = min((offer.price_micro_usd for offer in offers), default=last)
        made.append(SpotMarket(tuple(offers), whole.observe(bool(offers), tick_ms), last))
    return made


def _of_one(track: PoolTrack, tick_ms: int) -> list[SpotMarket]:
    """With one pool many ticks look the same; those share a value."""
    book = AvailabilityTracker()
    last = _listed_price([track])
    known: dict[tuple[AvailabilityEstimate, int], SpotMarket] = {}
    made = []
    for price in track.prices_micro_usd:
        availability = book.observe(price > 0, tick_ms)
        last = price or last
        market = known.get((availability, last))
        if market is None:
            offers = (SpotOffer(track.pool, price, availability),) if price > 0 else ()
            market = known[availability, last] = SpotMarket(offers, availability, last)
        made.append(market)
    return made


def _listed_price(tracks: Sequence[PoolTrack]) -> int:
    """The lowest that is known before anything was seen."""
    known = (track.listed_micro_usd for track in tracks if track.listed_micro_usd > 0)
    return min(known, default=0)
