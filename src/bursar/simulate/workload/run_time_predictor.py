"""Predicts run times from the jobs of a trace that have ended.

The prediction uses similar jobs: of the same user, name and size; of the same user and size; of the same
team; of all. A level with few jobs is weighted towards the wider one. Only jobs that have ended in the
run are used, so a prediction never knows more than a scheduler could.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bursar.model.event import AttemptSucceeded, Event, JobCancelled, JobSubmitted
from bursar.model.jobs.job import JobSpec, MpsShare, WholeGpus
from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.workload.trace import TraceJob

FIRST_GUESS_MS: Final = HOUR_MS
"""The prediction before any job has ended."""

MEMORY: Final = 256
"""The number of jobs in a rolling mean. With far fewer, one long job would starve similar ones."""

PRIOR_JOBS: Final = 2.0
"""The number of jobs at which a level weighs as much as the wider one."""

SimilarityKey = tuple[str | int, ...]


class RollingMean:
    """An exact mean of the first jobs, then an exponential one."""

    __slots__ = ("count", "mean_ms")

    def __init__(self) -> None:
        self.count = 0
        self.mean_ms = 0.0

    def add(self, run_ms: int) -> None:
        self.count = min(self.count + 1, MEMORY)
        self.mean_ms += (run_ms - self.mean_ms) / self.count

    def weighted_with(self, wider_ms: float) -> float:
        """The mean, weighted with the prediction of the wider level."""
        return (self.count * self.mean_ms + PRIOR_JOBS * wider_ms) / (self.count + PRIOR_JOBS)


class Predictor:
    """Predicts run times; the caller passes it the events of the run."""

    def __init__(self) -> None:
        self._means: dict[SimilarityKey, RollingMean] = {}
        self._means_by_key: dict[SimilarityKey, tuple[RollingMean, ...]] = {}
        self._live: dict[str, tuple[tuple[RollingMean, ...], int]] = {}

    def guess(self, job: TraceJob) -> int:
        """The predicted run time of a job, instead of its user's estimate.

        Jobs are predicted one by one as the run needs them, from all jobs that had ended when the
        previous job was submitted.
        """
        return self._guess_ms(job.job_id, self._similar(_trace_keys(job)), job.run_ms)

    def guess_submitted(self, event: JobSubmitted, run_ms: int) -> JobSubmitted:
        """Predicts a job of a recorded history, by queue, similarity keys, size and name."""
        spec = event.spec
        guess_ms = self._guess_ms(event.job_id, self._similar(_spec_keys(spec)), run_ms)
        return replace(event, spec=replace(spec, expected_run_ms=guess_ms))

    def apply_all(self, events: Iterable[Event]) -> None:
        """Learns from succeeded jobs; forgets cancelled ones."""
        for event in events:
            if isinstance(event, AttemptSucceeded):
                means, run_ms = self._live.pop(event.job_id, _UNKNOWN)
                for mean in means:
                    mean.add(run_ms)
            elif isinstance(event, JobCancelled):
                self._live.pop(event.job_id, None)

    def _similar(self, keys: tuple[SimilarityKey, ...]) -> tuple[RollingMean, ...]:
        """The means of each key. The narrowest key implies the wider ones, so it is the cache key."""
        narrowest = keys[-1]
        means = self._means_by_key.get(narrowest)
        if means is None:
            means = tuple([self._means.setdefault(one, RollingMean()) for one in keys])
            self._means_by_key[narrowest] = means
        return means

    def _guess_ms(self, job_id: str, means: tuple[RollingMean, ...], run_ms: int) -> int:
        """A prediction from ended jobs. The true run time is stored until the job has ended."""
        self._live[job_id] = means, run_ms
        widest = means[0]
        guess_ms = widest.mean_ms if widest.count else float(FIRST_GUESS_MS)
        for mean in means[1:]:
            if mean.count:
                guess_ms = mean.weighted_with(guess_ms)
        return max(1, round(guess_ms))


_UNKNOWN: Final[tuple[tuple[RollingMean, ...], int]] = ((), 0)


def _trace_keys(job: TraceJob) -> tuple[SimilarityKey, ...]:
    """From the widest to the narrowest."""
    team, user, size = job.team, job.user, job.gpu_total_milli
    return (
        (),
        (team,),
        (team, user, size),
        (team, user, size, job.name),
    )


def _spec_keys(spec: JobSpec) -> tuple[SimilarityKey, ...]:
    """The same for a submitted job; its similarity keys contain user and name."""
    size = sum(group.count * _gpu_milli(group.gpu) for group in spec.groups)
    return (
        (),
        (spec.queue,),
        (spec.queue, *spec.similarity_keys, size),
        (spec.queue, *spec.similarity_keys, size, spec.name),
    )


def _gpu_milli(request: object) -> int:
    match request:
        case WholeGpus(count=count):
            return count * MILLI
        case MpsShare(percent=percent):
            return percent * MILLI // 100
        case _:
            return 0
