"""Curves of a run for the report page, as plain tuples that can be sent between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttBar:
    """The time for which one team held a GPU of a charted node, in columns from ``begin``."""

    node: int
    gpu: int
    begin: int
    columns: int
    team: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Which team held which GPU when, on at most a few dozen nodes.

    Time is divided into ``columns``; a column of a GPU shows its longest holder in it. ``team`` of a bar
    is an index into ``teams``. ``stays_left_out`` counts stays that are too short to draw.
    """

    nodes: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    nodes_in_fleet: int = 0
    stays_left_out: int = 0
    columns: int = 0
    teams: tuple[str, ...] = ()
    bars: tuple[GanttBar, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Means over windows of equal width; the last window may be shorter.

    A window's mean is exact: it weights each value by its duration. ``shares`` and ``entitlements`` are
    fractions of the GPU time allocated in a window, for the teams with the largest demand out of
    ``teams_in_all``. ``wait_quantiles_ms`` are evenly spaced quantiles of the waits of finished jobs,
    from the smallest to the largest.
    """

    began_ms: int = 0
    ended_ms: int = 0
    width_ms: int = 1
    waiting_jobs: tuple[float, ...] = ()
    gpus_held: tuple[float, ...] = ()
    gpus: tuple[float, ...] = ()
    usd_per_hour: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    idle_usd_per_hour: tuple[float, ...] = ()
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    entitlements: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    teams_in_all: int = 0
    wait_quantiles_ms: tuple[int, ...] = ()
    gantt: Gantt = field(default_factory=Gantt)

    def __len__(self) -> int:
        return len(self.waiting_jobs)
