"""Spot prices over time, by instance type and zone."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from bursar.simulate.traces.fields import RowProblem, parse_count, parse_scaled
from bursar.simulate.traces.input_files import open_trace
from bursar.simulate.traces.table import Columns, table_rows
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import BadRow

NOT_OFFERED = -1
"""Stands in ``price_micro_usd`` for a time at which there was no offer."""

COLUMNS = Columns(required=("instance_type", "az_id", "dt_s", "spot_usd_h"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSeries:
    """What an hour of one machine cost, from each change to the next. Times are since 1970."""

    zone: str
    instance_type: str
    at_ms: array[int]
    price_micro_usd: array[int]

    def __len__(self) -> int:
        return len(self.at_ms)

    def changes(self) -> Iterator[tuple[int, int | None]]:
        """Moment and price per hour; ``None`` means no longer offered."""
        for at_ms, price in zip(self.at_ms, self.price_micro_usd, strict=True):
            yield at_ms, None if price == NOT_OFFERED else price

    def at(self, time_ms: int) -> int | None:
        """The price per hour at a moment; ``None`` before the first and while not offered."""
        place = bisect_right(self.at_ms, time_ms)
        price = self.price_micro_usd[place - 1] if place else NOT_OFFERED
        return None if price == NOT_OFFERED else price


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceHistory:
    """Series by (instance type, zone), in that order, and the rows that were not understood."""

    source: str
    series: tuple[PriceSeries, ...]
    bad_rows: tuple[BadRow, ...] = ()

    def of(self, instance_type: str, zone: str) -> PriceSeries | None:
        """One series, if it is there."""
        for one in self.series:
            if one.instance_type == instance_type and one.zone == zone:
                return one
        return None


def read_spot_prices(
    path: str | Path, *, instance_types: Collection[str] | None = None
) -> PriceHistory:
    """Changes as ``instance_type,az_id,dt_s,spot_usd_h``.

    A row's time is the seconds since the row of its series above it; the first row of a series has
    seconds since 1970. An empty price ends an offer. ``instance_types`` keeps those alone.
    """
    found: dict[tuple[str, str], tuple[array[int], array[int]]] = {}
    # A bad time makes all later times of its series unknown, so they are refused with it.
    lost: set[tuple[str, str]] = set()
    with open_trace(path) as text:
        builder = TraceBuilder(text.name)
        for line, (instance_type, zone, step, price) in table_rows(text, builder, COLUMNS):
            if instance_types is not None and instance_type not in instance_types:
                continue
            key = (instance_type, zone)
            if key in lost:
                builder.reject(line, "follows a row of its series whose time could not be read")
                continue
            try:
                _add(found.setdefault(key, (array("q"), array("q"))), step, price)
            except _LostTime as problem:
                lost.add(key)
                builder.reject(line, str(problem))
            except RowProblem as problem:
                builder.reject(line, str(problem))
    series = tuple(
        PriceSeries(zone=zone, instance_type=kind, at_ms=times, price_micro_usd=prices)
        for (kind, zone), (times, prices) in sorted(found.items())
        if times
    )
    return PriceHistory(source=str(path), series=series, bad_rows=builder.trace().bad_rows)


class _LostTime(RowProblem):
    """The time of a row, on which those after it build, cannot be read."""


def _add(series: tuple[array[int], array[int]], step: str, price: str) -> None:
    times, prices = series
    try:
        at_ms = parse_count(step, "dt_s") * 1_000 + (times[-1] if times else 0)
    except RowProblem as problem:
        raise _LostTime(str(problem)) from None
    try:
        micro_usd = parse_scaled(price, "spot_usd_h", 1_000_000) if price else NOT_OFFERED
    except RowProblem:
        # The time still counts: the next row's is measured from it. The price goes on as it was.
        times.append(at_ms)
        prices.append(prices[-1] if prices else NOT_OFFERED)
        raise
    times.append(at_ms)
    prices.append(micro_usd)
