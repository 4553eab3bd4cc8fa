"""Prices become events: what a pool costs from now on, or why a price was not believed.

A pool names its machine by the labels that Kubernetes gives to nodes (``INSTANCE_TYPE``, ``REGION``), and
optionally a zone and the term of its commitment. Owned pools are never touched: no cloud knows what
one's own hardware costs.
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
"""Names the cloud whose prices a running control plane asks for the pool: ``aws``, ``gcp`` or ``azure``."""

OLDEST_MS = DAY_MS
"""Older rows are not taken for what a machine costs now."""
SPIKE = 100
"""So many times dearer or cheaper at once is a mistake of units, not a market."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPrice:
    """A pool keeps its price, and why."""

    pool: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pool}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate:
    """What to commit, and what to tell the operator. Pools whose price is as it was are in neither."""

    changes: tuple[PriceChanged, ...]
    refused: tuple[RejectedPrice, ...]


def price_update(pools: Iterable[Pool], rows: Sequence[PriceRow], now_ms: int) -> PriceUpdate:
    """Compare what pools cost with what was read now, for all pools that name an instance type."""
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
        found = _row_for(pool, by_machine.get(machine, ()))
        reason = _why_not(pool, found, now_ms)
        if reason or found is None:
            refused.append(RejectedPrice(pool=pool.name, reason=reason))
        elif found.node_micro_usd_per_hour != pool.node_micro_usd_per_hour:
            price = found.node_micro_usd_per_hour
            changes.append(
                PriceChanged(at_ms=now_ms, pool=pool.name, node_micro_usd_per_hour=price)
            )
    return PriceUpdate(changes=tuple(changes), refused=tuple(refused))


def _row_for(pool: Pool, rows: Iterable[PriceRow]) -> PriceRow | None:
    """Rows in dollars are preferred, so that another currency refuses only where there is nothing else."""
    term = pool.labels.get(TERM_YEARS, "")
    fitting = [
        row
        for row in rows
        if row.market is pool.market and (not term or str(row.term_years) == term)
    ]
    in_usd = [row for row in fitting if row.currency == USD]
    return middle_row(in_usd or fitting, pool.labels.get(ZONE, ""))


def _why_not(pool: Pool, row: PriceRow | None, now_ms: int) -> str:
    """Why a price is not believed; empty when it is."""
    if row is None:
        place = f"{pool.labels[INSTANCE_TYPE]} {pool.market} in {pool.labels[REGION]}"
        return f"no price of {place} was read. Its old price stands."
    new, old = row.node_micro_usd_per_hour, pool.node_micro_usd_per_hour
    if row.currency != USD:
        return f"{row.what} is priced in {row.currency}; only US dollars are taken."
    if new <= 0:
        return f"{row.what} is said to cost {write_usd(new)} an hour. Its old price stands."
    if row.source is PriceSource.ESTIMATED:
        return f"{row.what} is only estimated. Fetch its price, or write usd_per_node_hour."
    if now_ms - row.as_of_ms > OLDEST_MS:
        age, most = write_duration(now_ms - row.as_of_ms), write_duration(OLDEST_MS)
        return f"{row.what} was read {age} ago; at most {most} is taken. Fetch prices."
    if row.as_of_ms - now_ms > HOUR_MS:
        ahead = write_duration(row.as_of_ms - now_ms)
        return f"{row.what} is dated {ahead} from now. Set the clocks."
    if old and (new > old * SPIKE or new * SPIKE < old):
        return (
            f"{row.what} would go from {write_usd(old)} to {write_usd(new)} an hour, more than"
            f" {SPIKE} times. Write usd_per_node_hour if that is right."
        )
    return ""
