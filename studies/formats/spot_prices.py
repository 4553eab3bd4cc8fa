"""Reads spot prices over time, by instance type and zone."""

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
"""The value in ``price_micro_usd`` while there was no offer."""

COLUMNS = Columns(required=("instance_type", "az_id", "dt_s", "spot_usd_h"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSeries:
    """The hourly price of a machine from each change to the next; times are since 1970."""

    zone: str
    instance_type: str
    at_ms: array[int]
    price_micro_usd: array[int]

    def __len__(self) -> int:
        return len(self.at_ms)

    def changes(self) -> Iterator[tuple[int, int | None]]:
        """Yields the time and the hourly price of each change; ``None`` means not offered."""
        for at_ms, price in zip(self.at_ms, self.price_micro_usd, strict=True):
            yield at_ms, None if price == NOT_OFFERED else price

    def at(self, time_ms: int) -> int | None:
        """The hourly price at a time; ``None`` before the first change and while not offered."""
        position = bisect_right(self.at_ms, time_ms)
        price = self.price_micro_usd[position - 1] if position else NOT_OFFERED
        return None if price == NOT_OFFERED else price


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceHistory:
    """Series in order of instance type and zone, and the invalid rows."""

    source: str
    series: tuple[PriceSeries, ...]
    bad_rows: tuple[BadRow, ...] = ()

    def of(self, instance_type: str, zone: str) -> PriceSeries | None:
        """Returns one series, if present."""
        for one in self.series:
            if one.instance_type == instance_type and one.zone == zone:
                return one
        return None


def read_spot_prices(
    path: str | Path, *, instance_types: Collection[str] | None = None
) -> PriceHistory:
    """Reads price changes as ``instance_type,az_id,dt_s,spot_usd_h``.

    The time of a row is in seconds since the previous row of its series; of the first row, since 1970.
    An empty price ends an offer. ``instance_types`` selects types.
    """
    changes: dict[tuple[str, str], tuple[array[int], array[int]]] = {}
    # An invalid time makes all later times of its series unknown, so those are rejected too.
    broken: set[tuple[str, str]] = set()
    with open_trace(path) as text:
        builder = TraceBuilder(text.name)
        for line, (instance_type, zone, step, price) in table_rows(text, builder, COLUMNS):
            if instance_types is not None and instance_type not in instance_types:
                continue
            key = (instance_type, zone)
            if key in broken:
                builder.reject(line, "follows a row of its series whose time is invalid")
                continue
            try:
                _add(changes.setdefault(key, (array("q"), array("q"))), step, price)
            except _InvalidTime as problem:
                broken.add(key)
                builder.reject(line, str(problem))
            except RowProblem as problem:
                builder.reject(line, str(problem))
    series = tuple(
        PriceSeries(zone=zone, instance_type=kind, at_ms=times, price_micro_usd=prices)
        for (kind, zone), (times, prices) in sorted(changes.items())
        if times
    )
    return PriceHistory(source=str(path), series=series, bad_rows=builder.trace().bad_rows)


class _InvalidTime(RowProblem):
    """The time of a row is invalid, so the times of later rows are unknown."""


def _add(series: tuple[array[int], array[int]], step: str, price: str) -> None:
    times, prices = series
    try:
        at_ms = parse_count(step, "dt_s") * 1_000 + (times[-1] if times else 0)
    except RowProblem as problem:
        raise _InvalidTime(str(problem)) from None
    try:
        micro_usd = parse_scaled(price, "spot_usd_h", 1_000_000) if price else NOT_OFFERED
    except RowProblem:
        # The next row counts from this time; the price stays unchanged.
        times.append(at_ms)
        prices.append(prices[-1] if prices else NOT_OFFERED)
        raise
    times.append(at_ms)
    prices.append(micro_usd)
