"""Predicts run times from similar jobs that have ended.

Run times are counted in histograms with doubling steps, for all jobs and for each group of similar jobs: of
one team, one user, one size. The estimate of a job mixes these, each group shrunk towards the wider one
while it has few jobs. The mixture gives, at each age, the run time that has the best chance of completion
per GPU second (the Gittins index): an hour-old job of a user whose jobs last minutes or days is expected
to last days. Nothing is learned before a job ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bursar.model.units import SECOND_MS

SimilarityKey = tuple[str | int, ...]

STEPS: Final = 25
"""Step k > 0 counts run times from 2^(k-1) to 2^k seconds, the first less than one, the last all above."""

LEAST_ENDED: Final = 16
"""Before this many jobs have ended there are no estimates."""

DOUBT: Final = 16.0
"""A group with this many jobs weighs as much as the wider one."""

STALE_PART: Final = 16
"""An estimate is renewed when one in this many of its jobs is new."""


def step_of(run_ms: int) -> int:
    """The step of a run time."""
    return min((run_ms // SECOND_MS).bit_length(), STEPS - 1)


def step_begins_ms(step: int) -> int:
    """The shortest run time of a step."""
    return SECOND_MS << (step - 1) if step else 0


_LENGTHS_MS: Final = [step_begins_ms(step + 1) - step_begins_ms(step) for step in range(STEPS)]


class RunTimeEstimate:
    """The expected total run time of similar jobs, by how long they have run.

    Most are needed for one age or none, so each age is computed on first use, from the counts at the time
    the estimate was made.
    """

    __slots__ = ("_chances", "_counts", "_totals_ms")

    def __init__(self, counts: list[list[int]]) -> None:
        self._counts = counts
        self._chances: list[float] = []
        self._totals_ms: dict[int, int] = {}

    def total_ms(self, had_ms: int) -> int:
        """The run time so far plus what is still expected."""
        step = step_of(had_ms)
        total_ms = self._totals_ms.get(step)
        if total_ms is None:
            self._chances = self._chances or _chances(self._counts)
            total_ms = self._totals_ms[step] = _total_ms(self._chances, step)
        return total_ms + had_ms - step_begins_ms(step)


class SimilarJobs:
    """Run time counts of similar jobs, the widest group first.

    Jobs of one user, name and size share one object, which caches their estimate until enough new jobs
    have ended.
    """

    def __init__(self, levels: list[list[int]]) -> None:
        self.levels = levels
        self.run_time_estimate: RunTimeEstimate | None = None
        self.stale_above = [-1] * len(levels)

    def renew_estimate(self) -> RunTimeEstimate:
        """Compute the estimate from the current counts; empty groups are left out."""
        seen = [counts[STEPS] for counts in self.levels]
        self.stale_above = [ended + ended // STALE_PART for ended in seen]
        self.run_time_estimate = RunTimeEstimate(
            [counts.copy() for counts in self.levels if counts[STEPS]]
        )
        return self.run_time_estimate


class RunTimeModel:
    """The run times of jobs that have ended."""

    def __init__(self) -> None:
        self._ended: dict[SimilarityKey, list[int]] = {}
        self._similar_jobs: dict[tuple[SimilarityKey, ...], SimilarJobs] = {}
        self.jobs = 0

    def similar_jobs(self, keys: tuple[SimilarityKey, ...]) -> SimilarJobs:
        """The jobs that share these attributes, the widest group first."""
        found = self._similar_jobs.get(keys)
        if found is None:
            levels = [self._ended.setdefault(one, [0] * (STEPS + 1)) for one in keys]
            found = self._similar_jobs[keys] = SimilarJobs(levels)
        return found

    def add(self, similar_jobs: SimilarJobs, run_ms: int) -> None:
        """Count an ended job."""
        self.jobs += 1
        step = step_of(run_ms)
        for counts in similar_jobs.levels:
            counts[step] += 1
            counts[STEPS] += 1

    def estimate(self, similar_jobs: SimilarJobs) -> RunTimeEstimate | None:
        """The estimate for such a job; None while too few jobs have ended."""
        if self.jobs < LEAST_ENDED:
            return None
        for counts, most in zip(similar_jobs.levels, similar_jobs.stale_above, strict=True):
            if counts[STEPS] > most:
                return similar_jobs.renew_estimate()
        return similar_jobs.run_time_estimate


def _chances(levels: Sequence[list[int]]) -> list[float]:
    """The probability that a job ends in each step; uniform before anything is known."""
    chances = [1.0 / STEPS] * STEPS
    for counts in levels:
        whole = counts[STEPS] + DOUBT
        chances = [
            (count + DOUBT * wider) / whole
            for count, wider in zip(counts[:STEPS], chances, strict=True)
        ]
    return chances


def _total_ms(chances: Sequence[float], first: int) -> int:
    """The start of a step plus the least time per probability of completion from there.

    Running from one step to the end of another costs time whether or not the job ends on the way, and
    completes it with some probability; the best such interval counts.
    """
    alive = sum(chances[first:])
    best = spent = ends = 0.0
    for step in range(first, len(chances)):
        chance = chances[step]
        spent += (alive - ends - chance / 2) * _LENGTHS_MS[step]
        ends += chance
        if not best or spent / ends < best:
            best = spent / ends
    return step_begins_ms(first) + max(1, round(best))
