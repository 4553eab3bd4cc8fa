"""Curves of a run: what a page draws. Plain tuples, so that they travel between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GanttBar:
    """One holder of one GPU of a drawn node: columns of the time axis from ``begin``, so many."""

    node: int
    gpu: int
    begin: int
    columns: int
    team: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """Who held which GPU when, on at most a few dozen nodes.

    Time is cut into ``columns``; a column of a GPU shows its longest holder in it. ``team`` of a bar is
    an index into ``teams``. ``nodes_in_fleet`` and ``stays_left_out`` tell what is not drawn.
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

    A window's mean is exact: whatever happens within it counts for as long as it lasted. ``shares`` and
    ``entitlements`` are parts of the GPU time handed out in a window, for the teams that wanted most;
    ``teams_in_all`` says how many there were. ``wait_quantiles_ms`` are evenly spaced quantiles of the
    wait of finished jobs, from the least to the largest.
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

    def as_json(self) -> dict[str, Any]:
        """Nothing but what JSON knows."""
        return asdict(self)
