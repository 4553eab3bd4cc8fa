"""Reads recorded spot capacity: how many machines were available in a zone over time.

Two conventions exist for the same measurements. In the publisher's files 1 means available. In files
that other artifacts derived from them 0 means available; those contain the name of their source file,
which is how we recognise them.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bursar.model.errors import UserError
from bursar.simulate.traces.fields import RowProblem, parse_count
from bursar.simulate.traces.input_files import MEMBER_MARK, open_stream, open_trace
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import BadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSeries:
    """Machines available at each tick. ``price_micro_usd`` is per hour, if known."""

    zone: str
    instance_type: str
    tick_ms: int
    available: bytes
    price_micro_usd: tuple[int, ...] = ()

    @property
    def span_ms(self) -> int:
        return self.tick_ms * len(self.available)

    def changes(self) -> Iterator[tuple[int, int]]:
        """Yields the time and the number at the first tick and at each change."""
        last = -1
        for tick, count in enumerate(self.available):
            if count != last:
                yield tick * self.tick_ms, count
                last = count


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChanges:
    """Machines available after each change of their number, in order of time."""

    source: str
    at_ms: array[int]
    machines: array[int]
    bad_rows: tuple[BadRow, ...] = ()

    def changes(self) -> Iterator[tuple[int, int]]:
        """Yields the time and the number of each change."""
        return zip(self.at_ms, self.machines, strict=True)


def read_spot_series(path: str | Path) -> SpotSeries:
    """Reads a JSON file ``{"metadata": {"gap_seconds": 600}, "data": [1, 0, ...]}``.

    Zone and type come from the name of the file (``us-west-2a_v100_1.json``) or of its folder.
    """
    with open_stream(path) as stream:
        try:
            content = json.loads(stream.read())
            tick_ms = round(content["metadata"]["gap_seconds"] * 1_000)
            ticks: list[Any] = content["data"]
            inverted = "source_file" in content["metadata"]
            available = bytes(int(not count) for count in ticks) if inverted else bytes(ticks)
            prices = tuple(round(price * 1_000_000) for price in content.get("prices", ()))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise _not_a_series(path, problem) from problem
    if tick_ms <= 0:
        raise _not_a_series(path, ValueError("gap_seconds must be more than 0"))
    zone, instance_type = _zone_and_type(str(path))
    return SpotSeries(
        zone=zone,
        instance_type=instance_type,
        tick_ms=tick_ms,
        available=available,
        price_micro_usd=prices,
    )


def read_machine_changes(path: str | Path) -> SpotChanges:
    """Reads Bamboo's ``t_ms,add|remove,node`` or Parcae's ``t_ms,machines``, both without a header."""
    at_ms, machines = array("q"), array("q")
    present: set[str] = set()
    with open_trace(path) as text:
        builder = TraceBuilder(text.name)
        for line, row in enumerate(csv.reader(text.lines), start=1):
            try:
                time_ms = parse_count(row[0], "time") if row else 0
                count = _machines_after(row, present)
            except RowProblem as problem:
                builder.reject(line, str(problem))
                continue
            if at_ms and time_ms < at_ms[-1]:
                builder.reject(line, f"time {time_ms} is before the time of the previous row")
            elif at_ms and at_ms[-1] == time_ms:
                machines[-1] = count
            else:
                at_ms.append(time_ms)
                machines.append(count)
    bad_rows = builder.trace().bad_rows
    return SpotChanges(source=str(path), at_ms=at_ms, machines=machines, bad_rows=bad_rows)


def _machines_after(row: list[str], present: set[str]) -> int:
    """Returns the number of machines after a row, which has a change or the number."""
    match row:
        case [_, "add", node]:
            present.add(node)
        case [_, "remove", node] if node in present:
            present.remove(node)
        case [_, "remove", node]:
            raise RowProblem(f"node {node!r} is removed but was not present")
        case [_, count]:
            return parse_count(count, "machines")
        case _:
            raise RowProblem(f"has {len(row)} fields, not time,add|remove,node or time,machines")
    return len(present)


def _zone_and_type(path: str) -> tuple[str, str]:
    """Splits ``.../us-west-2a_v100_1.json`` or ``.../us-west-2a_v100_1/17.json``."""
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
