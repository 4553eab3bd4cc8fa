"""Job sizes, and the total cost of runs under each rule."""

from __future__ import annotations

from dataclasses import dataclass, field

from bursar.core.deadline.inputs import DeadlineTerms
from bursar.model.units import HOUR_MS
from bursar.simulate.spot_study.replay import SpotRun

OURS = "expected-cost"
OPTIMUM = "optimum"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """The length and the deadline of a job, in hours."""

    job_hours: float = 48.0
    deadline_hours: float = 60.0
    change_over_hours: float = 0.2

    def terms(self, tick_ms: int, on_demand_micro_usd: int) -> DeadlineTerms:
        """The size in milliseconds, as terms for the rules."""
        return DeadlineTerms(
            work_ms=round(self.job_hours * HOUR_MS),
            deadline_ms=round(self.deadline_hours * HOUR_MS),
            change_over_ms=round(self.change_over_hours * HOUR_MS),
            tick_ms=tick_ms,
            on_demand_micro_usd=on_demand_micro_usd,
        )


@dataclass(slots=True)
class Tally:
    """Totals of the runs under one rule."""

    runs: int = 0
    cost_micro_usd: int = 0
    on_demand_ms: int = 0
    spot_ms: int = 0
    wall_ms: int = 0
    lost_ms: int = 0
    change_overs: int = 0
    missed: int = 0

    def add(self, run: SpotRun) -> None:
        self.runs += 1
        self.cost_micro_usd += run.cost_micro_usd
        self.on_demand_ms += run.on_demand_ms
        self.spot_ms += run.spot_ms
        self.lost_ms += run.lost_ms
        self.change_overs += run.change_overs
        self.wall_ms += run.finished_ms or 0
        self.missed += run.finished_ms is None

    def merge(self, other: Tally) -> None:
        self.runs += other.runs
        self.cost_micro_usd += other.cost_micro_usd
        self.on_demand_ms += other.on_demand_ms
        self.spot_ms += other.spot_ms
        self.lost_ms += other.lost_ms
        self.change_overs += other.change_overs
        self.wall_ms += other.wall_ms
        self.missed += other.missed

    @property
    def mean_usd(self) -> float:
        """Dollars per job."""
        return self.cost_micro_usd / self.runs / 1e6 if self.runs else 0.0

    def mean_hours(self, total_ms: int) -> float:
        """A total as hours per job."""
        return total_ms / self.runs / HOUR_MS if self.runs else 0.0


@dataclass(slots=True)
class StudyCell:
    """One row: a group or series, a job size, and a tally for each rule."""

    part: str
    group: str
    name: str
    size: JobSize
    tallies: dict[str, Tally] = field(default_factory=dict)

    def tally(self, rule: str) -> Tally:
        return self.tallies.setdefault(rule, Tally())

    def merge(self, other: StudyCell) -> None:
        for rule, tally in other.tallies.items():
            self.tally(rule).merge(tally)

    def above_optimum(self, rule: str) -> float | None:
        """The extra cost of a rule, as a fraction of the optimum."""
        best, this = self.tallies.get(OPTIMUM), self.tallies.get(rule)
        if not best or not this or not best.cost_micro_usd or best.runs != this.runs:
            return None
        return this.cost_micro_usd / best.cost_micro_usd - 1


def evenly_spaced(first: int, last: int, count: int) -> tuple[int, ...]:
    """Returns up to ``count`` whole numbers, evenly spaced from first to last."""
    if last <= first or count < 2:
        return (first,)
    return tuple(sorted({first + (last - first) * one // (count - 1) for one in range(count)}))
