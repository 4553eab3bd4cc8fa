"""Reads published archives of spot capacity, and lifetimes of preemptible machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bursar.simulate.traces.fields import RowProblem, parse_seconds, parse_time
from bursar.simulate.traces.input_files import MEMBER_MARK, archive_members, open_trace
from bursar.simulate.traces.spot_series import SpotSeries, read_spot_series
from bursar.simulate.traces.table import Columns, table_rows
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.trace import BadRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLifetime:
    """The lifetime of one preemptible machine."""

    name: str
    zone: str
    instance_type: str
    started_ms: int
    lifetime_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotLifetimes:
    """Lifetimes, and the invalid rows."""

    source: str
    lifetimes: tuple[SpotLifetime, ...]
    bad_rows: tuple[BadRow, ...] = ()


def read_spot_archive(archive: str | Path, under: str = "") -> tuple[SpotSeries, ...]:
    """Reads every series whose path in the archive begins with ``under``, in order of path."""
    return tuple(
        read_spot_series(name)
        for name in archive_members(archive)
        if name.endswith(".json") and name.partition(MEMBER_MARK)[2].startswith(under)
    )


def read_lifetimes(path: str | Path) -> SpotLifetimes:
    """Reads Google's lifetimes of 2019 (``name,zone,machine_type,lifetime_s,insert_time``)."""
    columns = Columns(required=("name", "zone", "machine_type", "lifetime_s", "insert_time"))
    lifetimes: list[SpotLifetime] = []
    with open_trace(path) as text:
        builder = TraceBuilder(text.name)
        for line, (name, zone, machine, lifetime, inserted) in table_rows(text, builder, columns):
            try:
                lifetimes.append(
                    SpotLifetime(
                        name=name,
                        zone=zone,
                        instance_type=machine,
                        started_ms=parse_time(inserted, "insert_time"),
                        lifetime_ms=parse_seconds(lifetime, "lifetime_s"),
                    )
                )
            except RowProblem as problem:
                builder.reject(line, str(problem))
    bad_rows = builder.trace().bad_rows
    return SpotLifetimes(source=str(path), lifetimes=tuple(lifetimes), bad_rows=bad_rows)
