"""Work that interruptions throw away: how much, and with what odds.

Interruptions come at a constant rate. What was not saved since the last checkpoint is done again, so a
job is a row of stretches each of which must come through whole. The number of stretches that fail is
negative binomial; each loses on average half of itself, and a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, exp, expm1, log, sqrt

from bursar.model.units import HOUR_MS

MILLION = 1_000_000
PERMILLE = 1_000
MOST_FAILURES = 200
"""Beyond so many expected interruptions no estimate is given: such a job is not going to end."""
REST = 1e-9
"""What is left of all odds when no more failures are looked at."""
USUAL_SAVE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """How a job is disturbed. ``per_million_hours`` is of all its nodes together; any of them stops it."""

    per_million_hours: int
    interval_ms: int | None = None
    restart_ms: int = 0

    @property
    def per_ms(self) -> float:
        return self.per_million_hours / (MILLION * HOUR_MS)

    def stretch_ms(self, work_ms: int) -> int:
        """What one interruption can cost at most: all of it, where nothing is saved."""
        return max(1, work_ms if self.interval_ms is None else min(work_ms, self.interval_ms))

    def expected_failures(self, work_ms: int) -> float:
        """How many interruptions there are before all of the work is done; many without end are infinite."""
        stretch = self.stretch_ms(work_ms)
        exponent = self.per_ms * stretch
        if exponent > log(MILLION):
            return float("inf")
        return work_ms / stretch * expm1(exponent)


def lost_ms(hazard: Hazard, work_ms: int, permille: int) -> int:
    """What is done again and spent on restarts, so that so many of a thousand such jobs lose no more.

    It grows with the work, the rate, the interval and the restart; that is what the shape of the sum
    below is chosen for, and what the tests look at.
    """
    odds = _odds_of_failures(hazard, work_ms)
    wanted = permille / PERMILLE
    if odds[0] >= wanted:
        return 0
    mean = min(hazard.stretch_ms(work_ms) / 2.0, 1.0 / hazard.per_ms)
    spread = mean / sqrt(3.0)

    def chance(lost: int) -> float:
        """How likely no more than this is lost."""
        total = odds[0]
        for failures in range(1, len(odds)):
            over = lost - failures * hazard.restart_ms
            if over < 0:
                break
            deviations = (over - failures * mean) / (spread * sqrt(failures))
            total += odds[failures] * (1.0 + erf(deviations / sqrt(2.0))) / 2.0
        return total

    most = 1
    while chance(most) < wanted and most < 1 << 62:
        most *= 2
    least = 0
    while least + 1 < most:
        middle = (least + most) // 2
        if chance(middle) >= wanted:
            most = middle
        else:
            least = middle
    return most


def _odds_of_failures(hazard: Hazard, work_ms: int) -> list[float]:
    """How likely none, one, two, ... stretches fail."""
    stretch = hazard.stretch_ms(work_ms)
    stretches = work_ms / stretch
    exponent = hazard.per_ms * stretch
    fails = -expm1(-exponent)
    odds = [exp(-exponent * stretches)]
    total = odds[0]
    most = 64 * (MOST_FAILURES + 1)
    while total < 1.0 - REST and len(odds) < most:
        count = len(odds)
        odds.append(odds[-1] * fails * (stretches + count - 1) / count)
        total += odds[-1]
    return odds
