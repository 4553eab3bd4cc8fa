"""One job size on one published series under every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.simulate.spot_study.cells import OPTIMUM, JobSize, StudyCell
from bursar.simulate.spot_study.market import constant_price_track, markets
from bursar.simulate.spot_study.optimum import optimum_of_one_pool
from bursar.simulate.spot_study.replay import replay
from studies.spot_deadlines.sources import SpotCase

ON_DEMAND_MICRO_USD = 3_060_000
SPOT_MICRO_USD = 973_100
"""The prices in the published study."""


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
        size = self.size.shortened(case.span_ms)
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
