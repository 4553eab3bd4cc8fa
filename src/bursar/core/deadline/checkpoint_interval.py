"""How often to save: advice from the measured time of a save and the measured rate of failures."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Final

from bursar.model.errors import UserError

HOURS_PER_MONTH: Final = 730


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAdvice:
    """The interval is work between two saves. Waste is the part of the machine time that is lost."""

    interval_seconds: float
    waste: float


def young_interval_seconds(save_seconds: float, between_failures_seconds: float) -> float:
    """Young 1974: the first-order optimum."""
    _expect_positive(save_seconds, between_failures_seconds)
    return sqrt(2 * save_seconds * between_failures_seconds)


def daly_interval_seconds(save_seconds: float, between_failures_seconds: float) -> float:
    """Daly 2006: the higher-order optimum; when a save takes longer than two failures, save once each."""
    _expect_positive(save_seconds, between_failures_seconds)
    if save_seconds >= 2 * between_failures_seconds:
        return between_failures_seconds
    part = save_seconds / (2 * between_failures_seconds)
    first = sqrt(2 * save_seconds * between_failures_seconds)
    return first * (1 + sqrt(part) / 3 + part / 9) - save_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """What a failure is to one job: how often it comes, and how long going on takes."""

    between_failures_seconds: float
    restart_seconds: float = 0.0

    def of_gang(self, nodes: int) -> Interruptions:
        """A gang fails when any of its nodes does."""
        if nodes < 1:
            raise UserError("a gang has one node or more.", fix="Say how many.", code="bad-gang")
        return Interruptions(
            between_failures_seconds=self.between_failures_seconds / nodes,
            restart_seconds=self.restart_seconds,
        )


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
    best = daly_interval_seconds(save_seconds, failures.between_failures_seconds)
    interval = max(best, upload_seconds)
    return CheckpointAdvice(
        interval_seconds=interval, waste=waste(interval, save_seconds, failures)
    )


# -- how often failures come -----------------------------------------------------------------------


def hours_between_failures_from_hourly(evicted_part: float) -> float:
    """From the part of machines that a provider takes back each hour."""
    _expect_part(evicted_part)
    return -1 / log(1 - evicted_part)


def hours_between_failures_from_monthly(interrupted_part: float) -> float:
    """From the part of machines that are interrupted in a month; crude, prefer your own history."""
    _expect_part(interrupted_part)
    return -HOURS_PER_MONTH / log(1 - interrupted_part)


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


def _expect_part(part: float) -> None:
    if not 0 < part < 1:
        raise UserError(
            f"{part:g} is not a part between 0 and 1.",
            fix="Write 0.1 for 10 %.",
            code="bad-failure-rate",
        )
