"""Finds the price of a machine and warns if it is old or estimated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import MachineShape, PriceRow, PriceSource
from bursar.model.suggestion import did_you_mean
from bursar.model.units import DAY_MS, write_usd

FRESH_MS = {
    Market.ON_DEMAND: 90 * DAY_MS,
    Market.RESERVED: 180 * DAY_MS,
    Market.SPOT: DAY_MS,
}
"""How long a price counts as current: lists change a few times a year, spot prices daily."""

Key = tuple[str, str, Market, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceQuery:
    """Selects a price. Regions and instance types are spelt as in the cloud."""

    region: str
    instance_type: str
    market: Market = Market.ON_DEMAND
    term_years: int = 0
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A price, and whether it is current."""

    row: PriceRow
    at_ms: int

    @property
    def node_micro_usd_per_hour(self) -> int:
        return self.row.node_micro_usd_per_hour

    @property
    def is_estimated(self) -> bool:
        return self.row.source is PriceSource.ESTIMATED

    @property
    def is_stale(self) -> bool:
        return self.at_ms - self.row.as_of_ms > FRESH_MS[self.row.market]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show with the price."""
        row, texts = self.row, []
        if self.is_estimated:
            texts.append(
                f"{row.what} is estimated from the on-demand price."
                " Fetch prices, or write what you pay."
            )
        if self.is_stale:
            days = (self.at_ms - row.as_of_ms) // DAY_MS
            limit = FRESH_MS[row.market] // DAY_MS
            texts.append(
                f"{row.what} was read {days:,} days ago; {row.market} prices count as fresh for"
                f" {limit} {'day' if limit == 1 else 'days'}. Fetch prices."
            )
        low, high = row.low_micro_usd, row.high_micro_usd
        if low is not None and high is not None and high > low + low // 4:
            spread = f"{write_usd(low)} to {write_usd(high)} an hour"
            texts.append(f"{row.what} costs {spread} by zone; this is the median.")
        if row.note:
            texts.append(f"{row.instance_type}: {row.note}.")
        return tuple(texts)


class PriceBook:
    """Prices by machine, market and zone; a later row replaces an earlier one."""

    def __init__(self, rows: Iterable[PriceRow] = (), shapes: Iterable[MachineShape] = ()) -> None:
        self._rows: dict[Key, dict[str, PriceRow]] = {}
        self._shapes = {shape.instance_type: shape for shape in shapes}
        for row in rows:
            key = (row.region, row.instance_type, row.market, row.term_years)
            self._rows.setdefault(key, {})[row.zone] = row

    def rows(self) -> Iterator[PriceRow]:
        """Every price, sorted by key."""
        for key in sorted(self._rows):
            zones = self._rows[key]
            yield from (zones[zone] for zone in sorted(zones))

    def shape(self, instance_type: str) -> MachineShape | None:
        return self._shapes.get(instance_type)

    def shapes(self, cloud: str) -> list[MachineShape]:
        """The machines of one cloud."""
        return [shape for shape in self._shapes.values() if shape.cloud == cloud]

    def find(self, query: PriceQuery, now_ms: int) -> Quote:
        """The price of a machine. Raises ``UserError`` with the alternatives."""
        key = (query.region, query.instance_type, query.market, query.term_years)
        zones = self._rows.get(key)
        row = middle_row(zones.values(), query.zone) if zones else None
        if row is None:
            raise self._unknown(query)
        return Quote(row=row, at_ms=now_ms)

    def _unknown(self, query: PriceQuery) -> UserError:
        term = f" for {query.term_years} y" if query.term_years else ""
        what = f"{query.instance_type!r} {query.market}{term} in {query.zone or query.region!r}"
        regions = sorted({region for region, kind, *_ in self._rows if kind == query.instance_type})
        kinds = sorted({kind for _, kind, *_ in self._rows})
        close = did_you_mean(query.instance_type, kinds, 3)
        if query.region in regions:
            sold = sorted(
                {
                    f"{market} {years} y" if years else str(market)
                    for region, kind, market, years in self._rows
                    if (region, kind) == (query.region, query.instance_type)
                }
            )
            fix = f"Known there: {', '.join(sold)}."
        elif regions:
            fix = f"It is known in {', '.join(regions)}."
        elif close:
            fix = close
        else:
            fix = "Import or fetch prices that have it, or write usd_per_node_hour."
        return UserError(f"No price of {what} is known.", fix=fix, code="unknown-price")


def middle_row(rows: Iterable[PriceRow], zone: str = "") -> PriceRow | None:
    """The price of the zone, or the upper median if no zone is named."""
    matches = list(rows)
    if zone:
        matches = [row for row in matches if row.zone == zone] or [r for r in matches if not r.zone]
    matches.sort(key=lambda row: (row.node_micro_usd_per_hour, row.zone))
    return matches[len(matches) // 2] if matches else None
