"""Optimal checkpoint intervals and expected run times (Young 1974, Daly 2006).

Interruptions are memoryless, at a constant rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

from bursar.model.errors import UserError
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS

MILLION = 1_000_000
MAX_EXPONENT = 40.0
USUAL_SAVE_MS = MINUTE_MS
"""Assumed duration of a save until one is measured."""
NEVER_ENDS_MS = 1 << 50
"""Expected run time of a job that is interrupted too often to end: more than 30,000 years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdvice:
    """The interval is work between two saves. Waste is the lost fraction of machine time."""

    interval_seconds: float
    waste: float


def young_interval(save: float, between_failures: float) -> float:
    """The first-order optimum, in the unit of the two times."""
    _expect_positive(save, between_failures)
    return sqrt(2 * save * between_failures)


def daly_interval(save: float, between_failures: float) -> float:
    """The higher-order optimum; at most one save per failure if a save takes too long."""
    first = young_interval(save, between_failures)
    if save >= 2 * between_failures:
        return between_failures
    ratio = save / (2 * between_failures)
    return first * (1 + sqrt(ratio) / 3 + ratio / 9) - save


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """Mean time between failures of one job, and the time of a restart."""

    between_failures_seconds: float
    restart_seconds: float = 0.0


def waste(interval_seconds: float, save_seconds: float, failures: Interruptions) -> float:
    """First-order waste: saves, and half an interval plus a restart at each failure."""
    _expect_positive(interval_seconds, failures.between_failures_seconds)
    repeated = (interval_seconds / 2 + failures.restart_seconds) / failures.between_failures_seconds
    return save_seconds / interval_seconds + repeated


def expected_wall_seconds(
    work_seconds: float, interval_seconds: float, save_seconds: float, failures: Interruptions
) -> float:
    """Daly's expected time for the work with memoryless failures."""
    _expect_positive(interval_seconds, failures.between_failures_seconds)
    between = failures.between_failures_seconds
    cycle = exp((interval_seconds + save_seconds) / between) - 1
    restart = exp(failures.restart_seconds / between)
    return between * restart * cycle * work_seconds / interval_seconds


def advise_interval(
    save_seconds: float, failures: Interruptions, *, upload_seconds: float = 0.0
) -> CheckpointAdvice:
    """Daly's interval for the blocking time of a save, but at least the time of an upload."""
    best = daly_interval(save_seconds, failures.between_failures_seconds)
    interval = max(best, upload_seconds)
    return CheckpointAdvice(
        interval_seconds=interval, waste=waste(interval, save_seconds, failures)
    )


# -- expected run time --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionHazard:
    """Loss rate of one node, and the number of nodes of a job: the loss of any stops it."""

    per_million_hours: int
    nodes: int = 1

    @property
    def between_ms(self) -> int | None:
        """Mean time between interruptions of the job; None if it is never interrupted."""
        rate = self.per_million_hours * self.nodes
        return MILLION * HOUR_MS // rate if rate else None


def expected_run_ms(work_ms: int, saving: CheckpointPolicy, hazard: InterruptionHazard) -> int:
    """Expected time for the work, with lost work and restarts (Daly).

    Work since the last checkpoint is lost; a job without checkpoints loses all of it.
    """
    between_ms = hazard.between_ms
    if between_ms is None or work_ms <= 0:
        return work_ms
    segment_ms = min(work_ms, saving.interval_ms or work_ms)
    if between_ms <= 0 or (segment_ms + saving.restart_ms) / between_ms > MAX_EXPONENT:
        return NEVER_ENDS_MS
    failures = Interruptions(
        between_failures_seconds=between_ms / SECOND_MS,
        restart_seconds=saving.restart_ms / SECOND_MS,
    )
    wall = expected_wall_seconds(work_ms / SECOND_MS, segment_ms / SECOND_MS, 0.0, failures)
    return min(NEVER_ENDS_MS, max(work_ms, round(wall * SECOND_MS)))


def _expect_positive(*values: float) -> None:
    if min(values) <= 0:
        raise UserError(
            "the time of a save, the interval and the time between failures must be above 0 s.",
            fix="Measure them, or leave the interval out.",
            code="bad-checkpoint-times",
        )
