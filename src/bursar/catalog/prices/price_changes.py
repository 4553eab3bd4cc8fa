"""Compares the prices of pools with fetched prices: price changes and rejected prices.

A pool names its machine by the node labels of Kubernetes (``INSTANCE_TYPE``, ``REGION``), and optionally a
zone and the term of its commitment. Owned pools are skipped: no cloud has their price.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.catalog.prices.price_book import middle_row
from bursar.model.event import PriceChanged
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.price import USD, PriceRow, PriceSource
from bursar.model.units import DAY_MS, HOUR_MS, write_duration, write_usd

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
TERM_YEARS = "bursar/term-years"
FOLLOWS = "bursar/prices"
"""The cloud whose prices the control plane fetches for the pool: ``aws``, ``gcp`` or ``azure``."""

MAX_AGE_MS = DAY_MS
"""Older prices are rejected."""
MAX_RATIO = 100
"""A larger ratio between new and old price is rejected as an error of units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPrice:
    """A price that was not applied to a pool, and the reason."""

    pool: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pool}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate:
    """Events to commit, and rejected prices to report. Pools without a change are in neither."""

    changes: tuple[PriceChanged, ...]
    refused: tuple[RejectedPrice, ...]


def price_update(pools: Iterable[Pool], rows: Sequence[PriceRow], now_ms: int) -> PriceUpdate:
    """Compares pools that name an instance type with the fetched prices."""
    by_machine: dict[tuple[str, str], list[PriceRow]] = {}
    for row in rows:
        by_machine.setdefault((row.region, row.instance_type), []).append(row)
    changes: list[PriceChanged] = []
    refused: list[RejectedPrice] = []
    for pool in sorted(pools, key=lambda pool: pool.name):
        if pool.market is Market.OWNED or INSTANCE_TYPE not in pool.labels:
            continue
        if REGION not in pool.labels:
            reason = f"it names {pool.labels[INSTANCE_TYPE]} but no {REGION}. Add that label."
            refused.append(RejectedPrice(pool=pool.name, reason=reason))
            continue
        machine = pool.labels[REGION], pool.labels[INSTANCE_TYPE]
        price_row = _matching_row(pool, by_machine.get(machine, ()))
        reason = _rejection(pool, price_row, now_ms)
        if reason or price_row is None:
            refused.append(RejectedPrice(pool=pool.name, reason=reason))
        elif price_row.node_micro_usd_per_hour != pool.node_micro_usd_per_hour:
            price = price_row.node_micro_usd_per_hour
            changes.append(
                PriceChanged(at_ms=now_ms, pool=pool.name, node_micro_usd_per_hour=price)
            )
    return PriceUpdate(changes=tuple(changes), refused=tuple(refused))


def _matching_row(pool: Pool, rows: Iterable[PriceRow]) -> PriceRow | None:
    """The price for a pool. Rows in dollars are preferred; other currencies are rejected."""
    term = pool.labels.get(TERM_YEARS, "")
    fitting = [
        row
        for row in rows
        if row.market is pool.market and (not term or str(row.term_years) == term)
    ]
    in_usd = [row for row in fitting if row.currency == USD]
    return middle_row(in_usd or fitting, pool.labels.get(ZONE, ""))


def _rejection(pool: Pool, row: PriceRow | None, now_ms: int) -> str:
    """Why a price is rejected; empty if it is accepted."""
    if row is None:
        place = f"{pool.labels[INSTANCE_TYPE]} {pool.market} in {pool.labels[REGION]}"
        return f"no price of {place} was read. The old price stays."
    new, old = row.node_micro_usd_per_hour, pool.node_micro_usd_per_hour
    if row.currency != USD:
        return f"{row.what} is priced in {row.currency}; only US dollars are accepted."
    if new <= 0:
        return f"{row.what} has the price {write_usd(new)} an hour. The old price stays."
    if row.source is PriceSource.ESTIMATED:
        return f"{row.what} is only estimated. Fetch its price, or write usd_per_node_hour."
    if now_ms - row.as_of_ms > MAX_AGE_MS:
        age, limit = write_duration(now_ms - row.as_of_ms), write_duration(MAX_AGE_MS)
        return f"{row.what} was read {age} ago; the limit is {limit}. Fetch prices."
    if row.as_of_ms - now_ms > HOUR_MS:
        ahead = write_duration(row.as_of_ms - now_ms)
        return f"{row.what} is dated {ahead} from now. Check the clocks."
    if old and (new > old * MAX_RATIO or new * MAX_RATIO < old):
        return (
            f"{row.what} would go from {write_usd(old)} to {write_usd(new)} an hour, more than"
            f" {MAX_RATIO} times. Write usd_per_node_hour if that is right."
        )
    return ""
