"""Several zones at once, each with its prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.simulate.spot_study.cells import OPTIMUM, OURS, JobSize, StudyCell
from bursar.simulate.spot_study.market import PoolTrack, markets
from bursar.simulate.spot_study.optimum import optimum_of_pools
from bursar.simulate.spot_study.replay import replay
from bursar.simulate.traces.input_files import MEMBER_MARK, archive_members
from bursar.simulate.traces.spot_series import SpotSeries, read_spot_series
from studies.spot_deadlines.series import ON_DEMAND_MICRO_USD

PART = "zones"
TICK_MS = 195_000
BEST_ZONE = "best single zone, chosen afterwards"
MEAN_ZONE = "mean single zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonesTask:
    """A batch of windows in which all zones were measured at the same time.

    Each window begins without history: estimates use only the window itself.
    """

    archive: Path
    windows: Sequence[int]
    size: JobSize
    rules: Sequence[str]

    def run(self) -> list[StudyCell]:
        """Runs every rule with a choice of all zones, and ours with each zone alone."""
        cell = StudyCell(part=PART, group="9 zones, priced", name="", size=self.size)
        by_window = _by_window(self.archive, self.windows)
        for window in sorted(by_window):
            _add_window(cell, [_track(one) for one in by_window[window]], self.rules)
        return [cell]


def window_numbers(archive: Path) -> list[int]:
    """Returns the numbers of the windows in the archive."""
    return sorted({_number(name) for name in archive_members(archive) if name.endswith(".json")})


def _add_window(cell: StudyCell, tracks: Sequence[PoolTrack], rules: Sequence[str]) -> None:
    terms = cell.size.terms(TICK_MS, ON_DEMAND_MICRO_USD)
    market = markets(tracks, terms.tick_ms)
    for rule in rules:
        cell.tally(rule).add(replay(terms, market, POLICIES[rule]))
    alone = [replay(terms, markets([track], terms.tick_ms), POLICIES[OURS]) for track in tracks]
    for run in alone:
        cell.tally(MEAN_ZONE).add(run)
    cell.tally(BEST_ZONE).add(min(alone, key=lambda run: run.cost_micro_usd))
    best = cell.tally(OPTIMUM)
    best.runs += 1
    prices = list(zip(*(track.prices_micro_usd for track in tracks), strict=True))
    best.cost_micro_usd += optimum_of_pools(terms, prices)


def _by_window(archive: Path, windows: Sequence[int]) -> dict[int, list[SpotSeries]]:
    series: dict[int, list[SpotSeries]] = {}
    for name in sorted(archive_members(archive)):
        if name.endswith(".json") and _number(name) in windows:
            series.setdefault(_number(name), []).append(read_spot_series(name))
    return series


def _track(series: SpotSeries) -> PoolTrack:
    prices = zip(series.available, series.price_micro_usd, strict=True)
    return PoolTrack(
        pool=f"{series.zone}_{series.instance_type}",
        prices_micro_usd=[price if machines else 0 for machines, price in prices],
        listed_micro_usd=series.price_micro_usd[0],
    )


def _number(name: str) -> int:
    return int(Path(name.rpartition(MEMBER_MARK)[2]).stem)
