"""Distribution of the work lost to interruptions.

Interruptions come at a constant rate, and work since the last checkpoint is repeated. So a job is a series of
segments, each of which must complete without interruption. The number of failed segments is negative
binomial; each loses on average half its length and a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import erf, exp, expm1, log, sqrt

from bursar.model.units import HOUR_MS

MILLION = 1_000_000
PERMILLE = 1_000
MAX_FAILURES = 200
"""With more expected interruptions there is no estimate: the job is not going to finish."""
TAIL = 1e-9
"""Probability of more failures than are considered."""
TYPICAL_SAVE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Interruptions of a job. ``per_million_hours`` is the sum over its nodes, each of which stops it."""

    per_million_hours: int
    interval_ms: int | None = None
    restart_ms: int = 0

    @property
    def per_ms(self) -> float:
        return self.per_million_hours / (MILLION * HOUR_MS)

    def segment_ms(self, work_ms: int) -> int:
        """The most that one interruption can lose: all work if there are no checkpoints."""
        return max(1, work_ms if self.interval_ms is None else min(work_ms, self.interval_ms))

    def expected_failures(self, work_ms: int) -> float:
        """Expected interruptions until the work is done; infinite if it practically never is."""
        segment = self.segment_ms(work_ms)
        exponent = self.per_ms * segment
        if exponent > log(MILLION):
            return float("inf")
        return work_ms / segment * expm1(exponent)


def lost_ms(hazard: Hazard, work_ms: int, permille: int) -> int:
    """Quantile of the time lost to repeated work and restarts.

    It never decreases with the work, the rate, the interval or the restart time; the sum below is chosen for
    that.
    """
    odds = _failure_odds(hazard, work_ms)
    wanted = permille / PERMILLE
    if odds[0] >= wanted:
        return 0
    mean = min(hazard.segment_ms(work_ms) / 2.0, 1.0 / hazard.per_ms)
    spread = mean / sqrt(3.0)

    def chance(lost: int) -> float:
        """Probability that no more than this is lost."""
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
    return 1 + bisect_left(range(1, most), wanted, key=chance)


def _failure_odds(hazard: Hazard, work_ms: int) -> list[float]:
    """Probabilities that zero, one, two, ... segments fail."""
    segment = hazard.segment_ms(work_ms)
    segments = work_ms / segment
    exponent = hazard.per_ms * segment
    fails = -expm1(-exponent)
    odds = [exp(-exponent * segments)]
    total = odds[0]
    most = 64 * (MAX_FAILURES + 1)
    while total < 1.0 - TAIL and len(odds) < most:
        count = len(odds)
        odds.append(odds[-1] * fails * (segments + count - 1) / count)
        total += odds[-1]
    return odds
