"""Finds the traces, and chooses the starts of jobs on each."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bursar.model.errors import UserError
from bursar.simulate.spot_study.cells import evenly_spaced
from bursar.simulate.traces.input_files import MEMBER_MARK, archive_members
from bursar.simulate.traces.spot_series import SpotSeries, read_spot_series

AVAILABILITY = "spot_availability_skypilot"
SERIES = "spot_traces_json.tar.xz"
WINDOW_STARTS = "nsdi24_window_starts.json"
PRICED_WINDOWS = "multi_region_aligned_windows_with_prices.tar.xz"
PRICES = "cloud_prices"

TWO_WEEKS = "availability/1-node/aws-10-26-2022"
TWO_MONTHS = "availability/1-node/aws-02-15-2023"
STARTS_OF_TWO_MONTHS = 100
STARTS_OF_OTHERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCase:
    """Whether a full gang fits at each tick of a series, and the ticks at which jobs start."""

    group: str
    name: str
    tick_ms: int
    available: bytes
    starts: tuple[int, ...]
    nodes: int

    @property
    def span_ms(self) -> int:
        return self.tick_ms * len(self.available)


def spot_folder(traces: Path) -> Path:
    """Returns the folder of spot traces: the given one, or one in it."""
    for folder in (traces / AVAILABILITY, traces):
        if (folder / SERIES).is_file():
            return folder
    raise UserError(
        f"{traces} has no {AVAILABILITY}/{SERIES}.",
        fix="Name the folder of the traces with --traces or the variable BURSAR_TRACES.",
        code="no-spot-traces",
    )


def prices_folder(traces: Path) -> Path | None:
    """Returns the folder of price histories next to the spot traces, if present."""
    for folder in (traces / PRICES, traces.parent / PRICES):
        if folder.is_dir():
            return folder
    return None


def read_cases(folder: Path, deadline_ms: int) -> list[SpotCase]:
    """Reads every series of the archive, in order of path."""
    archive = folder / SERIES
    published = _published_starts(folder / WINDOW_STARTS)
    cases = []
    for member in sorted(archive_members(archive)):
        path = member.partition(MEMBER_MARK)[2]
        if not path.endswith(".json"):
            continue
        series = read_spot_series(member)
        group = path.removeprefix("./").rpartition("/")[0]
        nodes = _nodes_of(group)
        cases.append(
            SpotCase(
                group=group,
                name=f"{series.zone}_{series.instance_type}",
                tick_ms=series.tick_ms,
                available=bytes(count >= nodes for count in series.available),
                starts=_starts(group, series, published, deadline_ms),
                nodes=nodes,
            )
        )
    return cases


def _starts(
    group: str, series: SpotSeries, published: Sequence[int], deadline_ms: int
) -> tuple[int, ...]:
    if group == TWO_WEEKS and published:
        return tuple(published)
    last = len(series.available) - -(-deadline_ms // series.tick_ms)
    count = STARTS_OF_TWO_MONTHS if group == TWO_MONTHS else STARTS_OF_OTHERS
    return evenly_spaced(0, last, count) if last >= 0 else (0,)


def _published_starts(path: Path) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    try:
        return tuple(int(start) for start in json.loads(path.read_text("utf-8"))["starts"])
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(
            f"{path} does not contain the ticks at which jobs start ({problem}).",
            fix='It should look like {"starts": [684, 1061]}.',
            code="bad-spot-series",
        ) from problem


def _nodes_of(group: str) -> int:
    """Returns the nodes of a job, which ``.../16-node/...`` names."""
    match = re.search(r"(\d+)-node", group)
    return int(match.group(1)) if match else 1
