"""Spot capacity over time: how many machines a zone would have given.

Two conventions are about for the same measurements. The publisher's files say 1 where a machine could
be had. The files that other artifacts derived from them say 0 for that. The derived ones carry the
name of their source file, by which they are told apart; say ``zero_is_available`` to decide yourself.
"""

from __future__ import annotations

import csv
import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bursar.model.errors import UserError
from bursar.simulate.traces.fields import RowProblem, whole
from bursar.simulate.traces.input_files import MEMBER_MARK, open_stream, open_trace
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import BadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSeries:
    """Machines that could be had (or kept) at each tick. ``price_micro_usd`` is per hour, if known."""

    zone: str
    instance_type: str
    tick_ms: int
    available: bytes
    price_micro_usd: tuple[int, ...] = ()

    @property
    def span_ms(self) -> int:
        """How long the series is."""
        return self.tick_ms * len(self.available)

    @property
    def availability(self) -> float:
        """The part of the ticks at which at least one machine could be had."""
        ticks = len(self.available)
        return (ticks - self.available.count(0)) / ticks if ticks else 0.0

    def at(self, time_ms: int) -> int:
        """Machines at a moment; none outside the series."""
        tick = time_ms // self.tick_ms
        return self.available[tick] if 0 <= tick < len(self.available) else 0

    def changes(self) -> Iterator[tuple[int, int]]:
        """The moments at which the number changes, the first tick included."""
        last = -1
        for tick, count in enumerate(self.available):
            if count != last:
                yield tick * self.tick_ms, count
                last = count


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChanges:
    """Machines at hand after each change of their number, in order of time."""

    source: str
    at_ms: array[int]
    machines: array[int]
    bad_rows: tuple[BadRow, ...] = ()

    def at(self, time_ms: int) -> int:
        """Machines at a moment; none before the first change."""
        place = bisect_right(self.at_ms, time_ms)
        return self.machines[place - 1] if place else 0

    def changes(self) -> Iterator[tuple[int, int]]:
        """Moment and number."""
        return zip(self.at_ms, self.machines, strict=True)


def read_spot_series(path: str | Path, *, zero_is_available: bool | None = None) -> SpotSeries:
    """One JSON file ``{"metadata": {"gap_seconds": 600}, "data": [1, 0, ...]}``.

    Zone and type are in the file's name (``us-west-2a_v100_1.json``) or its folder's.
    """
    with open_stream(path) as stream:
        try:
            found = json.loads(stream.read())
            tick_ms = round(found["metadata"]["gap_seconds"] * 1_000)
            ticks: list[Any] = found["data"]
            inverted = _is_inverted(found["metadata"], zero_is_available)
            available = bytes(int(not count) for count in ticks) if inverted else bytes(ticks)
            prices = tuple(round(price * 1_000_000) for price in found.get("prices", ()))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise _not_a_series(path, problem) from problem
    if tick_ms <= 0:
        raise _not_a_series(path, ValueError("gap_seconds must be more than 0"))
    zone, instance_type = _place(str(path))
    return SpotSeries(
        zone=zone,
        instance_type=instance_type,
        tick_ms=tick_ms,
        available=available,
        price_micro_usd=prices,
    )


def read_machine_changes(path: str | Path) -> SpotChanges:
    """Bamboo's ``t_ms,add|remove,node`` or Parcae's ``t_ms,machines``; neither names its columns."""
    at_ms, machines = array("q"), array("q")
    present: set[str] = set()
    with open_trace(path) as text:
        draft = TraceBuilder(text.name)
        for line, row in enumerate(csv.reader(text.lines), start=1):
            try:
                time_ms = whole(row[0], "time") if row else 0
                count = _machines_after(row, present)
            except RowProblem as problem:
                draft.reject(line, str(problem))
                continue
            if at_ms and time_ms < at_ms[-1]:
                draft.reject(line, f"time {time_ms} is before that of the row above")
            elif at_ms and at_ms[-1] == time_ms:
                machines[-1] = count
            else:
                at_ms.append(time_ms)
                machines.append(count)
    bad_rows = draft.trace().bad_rows
    return SpotChanges(source=str(path), at_ms=at_ms, machines=machines, bad_rows=bad_rows)


def _machines_after(row: list[str], present: set[str]) -> int:
    """How many there are after a row that says what changed, or how many."""
    match row:
        case [_, "add", node]:
            present.add(node)
        case [_, "remove", node] if node in present:
            present.remove(node)
        case [_, "remove", node]:
            raise RowProblem(f"node {node!r} is removed but was not there")
        case [_, count]:
            return whole(count, "machines")
        case _:
            raise RowProblem(f"has {len(row)} fields, not time,add|remove,node or time,machines")
    return len(present)


def _is_inverted(metadata: dict[str, Any], zero_is_available: bool | None) -> bool:
    return "source_file" in metadata if zero_is_available is None else zero_is_available


def _place(path: str) -> tuple[str, str]:
    """``.../us-west-2a_v100_1.json`` or ``.../us-west-2a_v100_1/17.json``: zone, then type."""
    inside = PurePosixPath(path.rpartition(MEMBER_MARK)[2])
    name = inside.stem if "_" in inside.stem else inside.parent.name
    zone, _, instance_type = name.partition("_")
    return zone, instance_type


def _not_a_series(path: str | Path, problem: Exception) -> UserError:
    return UserError(
        f"{path}: not a series of spot availability ({problem}).",
        fix='It should look like {"metadata": {"gap_seconds": 600}, "data": [1, 0]}.',
        code="bad-spot-series",
    )
