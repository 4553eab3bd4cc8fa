"""One job size on one published series under every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.deadline import POLICIES
from bursar.simulate.spot_study.cells import OPTIMUM, JobSize, StudyCell
from bursar.simulate.spot_study.market import constant_price_track, markets
from bursar.simulate.spot_study.optimum import optimum_of_one_pool
from bursar.simulate.spot_study.replay import replay
from studies.spot_deadlines.sources import SpotCase

ON_DEMAND_MICRO_USD = 3_060_000
SPOT_MICRO_USD = 973_100
"""The prices at which the study was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTask:
    """One series, one job size, some rules; ``limit`` keeps that many starts, evenly chosen."""

    part: str
    case: SpotCase
    size: JobSize
    rules: Sequence[str]
    limit: int | None = None
    with_optimum: bool = True

    def run(self) -> list[StudyCell]:
        """Every start under every rule."""
        case = self.case
        size = self.size.shortened(case.span_ms)
        terms = size.terms(case.tick_ms, ON_DEMAND_MICRO_USD)
        seen = markets([constant_price_track(case.name, case.room, SPOT_MICRO_USD)], case.tick_ms)
        cell = StudyCell(part=self.part, group=case.group, name=case.name, size=size)
        fitting = [one for one in case.starts if one + terms.ticks <= len(case.room)] or [0]
        for start in chosen(fitting, self.limit):
            window = seen[start : start + terms.ticks]
            for rule in self.rules:
                cell.tally(rule).add(replay(terms, window, POLICIES[rule]))
            if self.with_optimum:
                room = case.room[start : start + terms.ticks]
                best = cell.tally(OPTIMUM)
                best.runs += 1
                best.cost_micro_usd += optimum_of_one_pool(terms, room, SPOT_MICRO_USD)
        return [cell]


def chosen(starts: Sequence[int], limit: int | None) -> Sequence[int]:
    """All of them, or every so manyth."""
    if limit is None or limit >= len(starts):
        return starts
    return [starts[one * len(starts) // limit] for one in range(limit)]
