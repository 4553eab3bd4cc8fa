"""A 72-hour fine-tuning job with checkpoints in three zones.

A seed selects the zones and the start. The checkpoint interval follows from the time that a checkpoint
takes and from how often the zones lost machines before the start. Machines are lost without notice: the
work since the last checkpoint is repeated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.core.deadline.inputs import DeadlineTerms, SpotMarket
from bursar.model.jobs.checkpoint_formulas import (
    Interruptions,
    advise_interval,
)
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.spot_study.cells import JobSize, StudyCell
from bursar.simulate.spot_study.market import markets
from bursar.simulate.spot_study.replay import replay
from studies.spot_deadlines.series import (
    ON_DEMAND_MICRO_USD,
    SPOT_MICRO_USD,
    constant_price_track,
)
from studies.spot_deadlines.sources import SpotCase

PART = "fine-tuning"
SIZE = JobSize(job_hours=72.0, deadline_hours=100.0, change_over_hours=0.2)
SEEDS = 1_000
ZONES = 3
SAVE_SECONDS = 60
ROUNDED_TO_MS = 5 * MINUTE_MS
BASELINE = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuningTask:
    """A batch of seeds."""

    cases: tuple[SpotCase, ...]
    seeds: Sequence[int]
    rules: Sequence[str]
    size: JobSize = SIZE

    def run(self) -> list[StudyCell]:
        """Runs each seed under each rule; the on-demand baseline needs no checkpoints."""
        cell = StudyCell(part=PART, group="3 zones of 2023", name="", size=self.size)
        tick_ms = self.cases[0].tick_ms
        plain = self.size.terms(tick_ms, ON_DEMAND_MICRO_USD)
        for seed in self.seeds:
            zones, start = draw(seed, self.cases, plain.ticks)
            market = _markets(zones)[start : start + plain.ticks]
            cycle_ms = save_cycle_ms(zones, start, plain)
            saving = saving_terms(plain, cycle_ms)
            for rule in self.rules:
                if rule == BASELINE:
                    run = replay(plain, market, POLICIES[rule])
                else:
                    run = replay(saving, market, POLICIES[rule], save_every_ms=cycle_ms)
                cell.tally(rule).add(run)
        return [cell]


def draw(seed: int, cases: tuple[SpotCase, ...], ticks: int) -> tuple[tuple[SpotCase, ...], int]:
    """Selects the zones and the tick at which the job starts."""
    rng = random.Random(f"fine-tuning {seed}")
    zones = rng.choice(list(combinations(cases, min(ZONES, len(cases)))))
    last = min(len(case.available) for case in zones) - ticks
    return zones, rng.randrange(0, last + 1)


def save_cycle_ms(zones: Sequence[SpotCase], start: int, terms: DeadlineTerms) -> int:
    """The time between two checkpoints, by Daly's formula from the history before the start.

    Rounded to five minutes, so that similar jobs have the same terms.
    """
    up = sum(sum(case.available[:start]) for case in zones)
    losses = sum(
        earlier > later
        for case in zones
        for earlier, later in zip(case.available[:start], case.available[1:start], strict=False)
    )
    hours = hours_between_failures_seen(up * terms.tick_ms / HOUR_MS, losses)
    failures = Interruptions(
        between_failures_seconds=hours * 3_600,
        restart_seconds=terms.change_over_ms / SECOND_MS,
    )
    advice = advise_interval(SAVE_SECONDS, failures)
    cycle_ms = round((advice.interval_seconds + SAVE_SECONDS) * SECOND_MS)
    return max(1, round(cycle_ms / ROUNDED_TO_MS)) * ROUNDED_TO_MS


def hours_between_failures_seen(
    exposure_hours: float, failures: int, *, prior_hours: float = 24.0, prior_failures: float = 1.0
) -> float:
    """Estimate from history; the prior prevents an infinite estimate from a short history."""
    return (prior_hours + exposure_hours) / (prior_failures + failures)


def saving_terms(terms: DeadlineTerms, cycle_ms: int) -> DeadlineTerms:
    """The terms of the job with checkpoints: their time, and the work that a loss repeats."""
    save_ms = SAVE_SECONDS * SECOND_MS
    return replace(
        terms,
        work_ms=-(-terms.work_ms * cycle_ms // (cycle_ms - save_ms)),
        rework_ms=cycle_ms,
    )


@lru_cache(maxsize=32)
def _markets(zones: tuple[SpotCase, ...]) -> list[SpotMarket]:
    tracks = [constant_price_track(case.name, case.available, SPOT_MICRO_USD) for case in zones]
    return markets(tracks, zones[0].tick_ms)
