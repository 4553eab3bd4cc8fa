"""Estimates how long spot capacity stays available or unavailable, from a pool's history.

An availability interval that has lasted is likely to last: in published traces the probability that it ends
within the hour falls about thirtyfold as it ages from minutes to half a day. The curve has the same shape in
every zone, so the shape is given here and only its level is learned for each pool: observed ends over
expected ends, with exponential decay.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, log
from typing import Final, NamedTuple

from bursar.model.units import HOUR_MS, MINUTE_MS

AGE_EDGES_MS: Final = tuple(minutes * MINUTE_MS for minutes in (0, 10, 20, 40, 80, 160, 320, 640))
AGES: Final = len(AGE_EDGES_MS)

# Ends per hour at each age: the maximum-likelihood shape of the four us-west-2a series of the two-week traces
# of 2022, with one level for each series. docs/spot.md has the alternatives.
UP_ENDS_PER_HOUR: Final = (1.75, 1.22, 0.85, 0.52, 0.30, 0.18, 0.17, 0.07)
DOWN_ENDS_PER_HOUR: Final = (2.33, 1.36, 1.08, 0.92, 0.44, 0.31, 0.20, 0.09)

HALF_LIFE_MS: Final = 96 * HOUR_MS
PRIOR_ENDS: Final = 4.0
"""The prior: this many ends, observed and expected."""

STEPS_PER_DOUBLING: Final = 2
LOWEST_STEP: Final = -5
HIGHEST_STEP: Final = 4


class AvailabilityEstimate(NamedTuple):
    """Whether a pool is available, since when, and how fast its intervals end.

    Steps are half doublings of the usual rate of ends.
    """

    up: bool
    age: int
    up_step: int
    down_step: int


class AvailabilityTracker:
    """Learns the availability of one pool from observations at intervals."""

    __slots__ = ("_age_ms", "_ends", "_expected", "_up")

    def __init__(self) -> None:
        self._up: bool | None = None
        self._age_ms = 0
        self._ends = [0.0, 0.0]
        self._expected = [0.0, 0.0]

    def observe(self, up: bool, passed_ms: int) -> AvailabilityEstimate:
        """Record whether the pool had capacity ``passed_ms`` after the last observation."""
        if self._up is not None:
            self._learn(self._up, up, passed_ms)
        self._age_ms = self._age_ms + passed_ms if up is self._up else 0
        self._up = up
        return AvailabilityEstimate(
            up=up,
            age=age_of(self._age_ms),
            up_step=self._step(True),
            down_step=self._step(False),
        )

    def _learn(self, was_up: bool, up: bool, passed_ms: int) -> None:
        fade = 0.5 ** (passed_ms / HALF_LIFE_MS)
        for side in (0, 1):
            self._ends[side] *= fade
            self._expected[side] *= fade
        rates = UP_ENDS_PER_HOUR if was_up else DOWN_ENDS_PER_HOUR
        self._expected[was_up] += rates[age_of(self._age_ms)] * passed_ms / HOUR_MS
        self._ends[was_up] += up is not was_up

    def _step(self, side: bool) -> int:
        return step_of_ends(self._ends[side], self._expected[side])


def step_of_ends(ends: float, expected: float, prior_step: int = 0) -> int:
    """How much faster than usual intervals end, from observed and expected ends.

    ``prior_step`` is assumed before anything is observed.
    """
    prior = times_usual(prior_step)
    times = prior * (PRIOR_ENDS + ends) / (PRIOR_ENDS + prior * expected)
    step = round(log(times, 2) * STEPS_PER_DOUBLING)
    return max(LOWEST_STEP, min(HIGHEST_STEP, step))


def step_of_life(life_ms: int) -> int:
    """The step at which a new interval is expected to last about this long."""
    steps = range(LOWEST_STEP, HIGHEST_STEP + 1)
    return min(steps, key=lambda step: abs(log(expected_life_ms(0, step) / life_ms)))


def age_of(age_ms: int) -> int:
    """The age class of an interval."""
    age = AGES - 1
    while age_ms < AGE_EDGES_MS[age]:
        age -= 1
    return age


def times_usual(step: int) -> float:
    """The rate of ends relative to the usual rate."""
    return float(2.0 ** (step / STEPS_PER_DOUBLING))


@lru_cache(maxsize=256)
def expected_life_ms(age: int, up_step: int) -> int:
    """How much longer an available pool of this age is expected to stay available."""
    times = times_usual(up_step)
    life_h = 1 / (UP_ENDS_PER_HOUR[-1] * times)
    for level in reversed(range(age, AGES - 1)):
        rate = UP_ENDS_PER_HOUR[level] * times
        width_h = (AGE_EDGES_MS[level + 1] - AGE_EDGES_MS[level]) / HOUR_MS
        stays = exp(-rate * width_h)
        life_h = (1 - stays) / rate + stays * life_h
    return round(life_h * HOUR_MS)
