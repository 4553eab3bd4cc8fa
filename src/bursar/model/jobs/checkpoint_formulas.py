"""How often to save work, and how long it takes when it is interrupted (Young 1974, Daly 2006).

Interruptions come without memory, at a constant rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

from bursar.model.errors import UserError
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.units import HOUR_MS, SECOND_MS

MILLION = 1_000_000
MOST_EXPONENT = 40.0
NEVER_ENDS_MS = 1 << 50
"""What is expected of a job that is interrupted so often that it will not end: more than 30,000 years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdvice:
    """The interval is work between two saves. Waste is the part of the machine time that is lost."""

    interval_seconds: float
    waste: float


def young_interval(save: float, between_failures: float) -> float:
    """The first-order optimum, in the unit of the two times."""
    _expect_positive(save, between_failures)
    return sqrt(2 * save * between_failures)


def daly_interval(save: float, between_failures: float) -> float:
    """The higher-order optimum; when a save takes longer than two failures, save once each."""
    first = young_interval(save, between_failures)
    if save >= 2 * between_failures:
        return between_failures
    part = save / (2 * between_failures)
    return first * (1 + sqrt(part) / 3 + part / 9) - save


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """What a failure is to one job: how often it comes, and how long going on takes."""

    between_failures_seconds: float
    restart_seconds: float = 0.0


def waste(interval_seconds: float, save_seconds: float, failures: Interruptions) -> float:
    """First order: saving, half an interval done again at each failure, and the restart."""
    _expect_positive(interval_seconds, failures.between_failures_seconds)
    again = (interval_seconds / 2 + failures.restart_seconds) / failures.between_failures_seconds
    return save_seconds / interval_seconds + again


def expected_wall_seconds(
    work_seconds: float, interval_seconds: float, save_seconds: float, failures: Interruptions
) -> float:
    """Daly's expected time for the work when failures come without memory."""
    _expect_positive(interval_seconds, failures.between_failures_seconds)
    between = failures.between_failures_seconds
    cycle = exp((interval_seconds + save_seconds) / between) - 1
    restart = exp(failures.restart_seconds / between)
    return between * restart * cycle * work_seconds / interval_seconds


def advise_interval(
    save_seconds: float, failures: Interruptions, *, upload_seconds: float = 0.0
) -> CheckpointAdvice:
    """Daly's interval for the blocking part of a save, but never shorter than a whole upload takes."""
    best = daly_interval(save_seconds, failures.between_failures_seconds)
    interval = max(best, upload_seconds)
    return CheckpointAdvice(
        interval_seconds=interval, waste=waste(interval, save_seconds, failures)
    )


# -- a job in a pool that interrupts it ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionHazard:
    """How often one node is lost, and on how many nodes a job stands: the loss of any stops it."""

    per_million_hours: int
    nodes: int = 1

    @property
    def between_ms(self) -> int | None:
        """How long the job runs on average before it is interrupted; None when it never is."""
        rate = self.per_million_hours * self.nodes
        return MILLION * HOUR_MS // rate if rate else None


def expected_run_ms(work_ms: int, saving: CheckpointPolicy, hazard: InterruptionHazard) -> int:
    """How long the work takes on average, with what is lost and the restarts (Daly).

    What is not saved since the last checkpoint is lost; a job that
    saves nothing loses all of it.
    """
    between_ms = hazard.between_ms
    if between_ms is None or work_ms <= 0:
        return work_ms
    stretch_ms = min(work_ms, saving.interval_ms or work_ms)
    if between_ms <= 0 or (stretch_ms + saving.restart_ms) / between_ms > MOST_EXPONENT:
        return NEVER_ENDS_MS
    failures = Interruptions(
        between_failures_seconds=between_ms / SECOND_MS,
        restart_seconds=saving.restart_ms / SECOND_MS,
    )
    wall = expected_wall_seconds(work_ms / SECOND_MS, stretch_ms / SECOND_MS, 0.0, failures)
    return min(NEVER_ENDS_MS, max(work_ms, round(wall * SECOND_MS)))


# -- how often failures come -----------------------------------------------------------------------


def hours_between_failures_seen(
    exposure_hours: float, failures: int, *, prior_hours: float = 24.0, prior_failures: float = 1.0
) -> float:
    """From one's own history; the prior keeps a short history without failures from meaning never."""
    return (prior_hours + exposure_hours) / (prior_failures + failures)


def _expect_positive(*values: float) -> None:
    if min(values) <= 0:
        raise UserError(
            "a save, an interval and the time between failures take more than 0 s.",
            fix="Measure them, or leave the interval to us.",
            code="bad-checkpoint-times",
        )
