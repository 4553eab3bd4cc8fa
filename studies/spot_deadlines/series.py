"""One job size on one published series under every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.model.units import HOUR_MS
from bursar.simulate.spot_study.cells import OPTIMUM, JobSize, StudyCell
from bursar.simulate.spot_study.market import PoolTrack, markets
from bursar.simulate.spot_study.optimum import optimum_of_one_pool
from bursar.simulate.spot_study.replay import replay
from studies.spot_deadlines.sources import SpotCase

ON_DEMAND_MICRO_USD = 3_060_000
SPOT_MICRO_USD = 973_100
"""The prices in the published study."""

SHORT_SERIES_FRACTION = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTask:
    """One series, one job size, some rules; ``limit`` is the most starts, evenly chosen."""

    part: str
    case: SpotCase
    size: JobSize
    rules: Sequence[str]
    limit: int | None = None
    with_optimum: bool = True

    def run(self) -> list[StudyCell]:
        """Runs every start under every rule."""
        case = self.case
        size = shortened(self.size, case.span_ms)
        terms = size.terms(case.tick_ms, ON_DEMAND_MICRO_USD)
        track = constant_price_track(case.name, case.available, SPOT_MICRO_USD)
        market = markets([track], case.tick_ms)
        cell = StudyCell(part=self.part, group=case.group, name=case.name, size=size)
        fitting = [one for one in case.starts if one + terms.ticks <= len(case.available)] or [0]
        for start in choose_starts(fitting, self.limit):
            window = market[start : start + terms.ticks]
            for rule in self.rules:
                cell.tally(rule).add(replay(terms, window, POLICIES[rule]))
            if self.with_optimum:
                available = case.available[start : start + terms.ticks]
                best = cell.tally(OPTIMUM)
                best.runs += 1
                best.cost_micro_usd += optimum_of_one_pool(terms, available, SPOT_MICRO_USD)
        return [cell]


def choose_starts(starts: Sequence[int], limit: int | None) -> Sequence[int]:
    """Returns all starts, or ``limit`` of them at even steps."""
    if limit is None or limit >= len(starts):
        return starts
    return [starts[one * len(starts) // limit] for one in range(limit)]


def constant_price_track(pool: str, available: Sequence[int], price_micro_usd: int) -> PoolTrack:
    """A pool whose price does not change."""
    return PoolTrack(
        pool=pool,
        prices_micro_usd=[price_micro_usd if machines else 0 for machines in available],
        listed_micro_usd=price_micro_usd,
    )


def shortened(size: JobSize, span_ms: int) -> JobSize:
    """Fits a size to a short series: the deadline is 80 % of it, with the same relative slack."""
    if span_ms >= size.deadline_hours * HOUR_MS:
        return size
    deadline = int(SHORT_SERIES_FRACTION * span_ms / HOUR_MS)
    job = round(deadline * size.job_hours / size.deadline_hours, 1)
    return replace(size, job_hours=job, deadline_hours=deadline)
