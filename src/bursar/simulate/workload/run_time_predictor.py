"""Run times learned from a trace's own past, for policies that are not told the future.

A job is guessed from jobs like it that have ended: of the same user, name and size; of the same user
and size; of the same team; of anyone. Each level is drawn towards the wider one for as long as it has
seen little. Nothing is learned before a job ends in the run, so a guess never knows more than a
scheduler could.
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
"""What is guessed before any job has ended."""

MEMORY: Final = 256
"""A mean rolls over about so many jobs. With far fewer, one long job is taken for a habit, and those
like it starve behind everyone else."""

DOUBT: Final = 2.0
"""So many jobs does a level need before it weighs as much as the wider one."""

Likeness = tuple[str | int, ...]


class RollingMean:
    """A mean that forgets: exact over the first jobs, then exponential."""

    __slots__ = ("count", "mean_ms")

    def __init__(self) -> None:
        self.count = 0
        self.mean_ms = 0.0

    def add(self, run_ms: int) -> None:
        """One more job of this likeness has ended."""
        self.count = min(self.count + 1, MEMORY)
        self.mean_ms += (run_ms - self.mean_ms) / self.count

    def drawn_to(self, wider_ms: float) -> float:
        """Its mean, mixed with the wider level's guess by how little it has seen."""
        return (self.count * self.mean_ms + DOUBT * wider_ms) / (self.count + DOUBT)


class Predictor:
    """Guesses the run times of jobs to come. Whoever follows the run tells it how jobs end."""

    def __init__(self) -> None:
        self._means: dict[Likeness, RollingMean] = {}
        self._of_peers: dict[Likeness, tuple[RollingMean, ...]] = {}
        self._alive: dict[str, tuple[tuple[RollingMean, ...], int]] = {}

    def guess(self, job: TraceJob) -> int:
        """How long a job will run, in place of what its user wrote.

        Asked for one job after another as the run needs them, a guess counts on every job that had ended
        when the job before was submitted.
        """
        return self._guess_ms(job.job_id, self._peers(_likenesses(job)), job.run_ms)

    def guess_submitted(self, event: JobSubmitted, run_ms: int) -> JobSubmitted:
        """The same for a job of a recorded history, which its queue, name and size make alike."""
        spec = event.spec
        guess_ms = self._guess_ms(event.job_id, self._peers(_likenesses_of(spec)), run_ms)
        return replace(event, spec=replace(spec, expected_run_ms=guess_ms))

    def follow_all(self, events: Iterable[Event]) -> None:
        """Learn from jobs that have ended well; forget those that were given up."""
        for event in events:
            if isinstance(event, AttemptSucceeded):
                means, run_ms = self._alive.pop(event.job_id, _NOBODY)
                for mean in means:
                    mean.add(run_ms)
            elif isinstance(event, JobCancelled):
                self._alive.pop(event.job_id, None)

    def _peers(self, likenesses: tuple[Likeness, ...]) -> tuple[RollingMean, ...]:
        """The means of each likeness. The narrowest says all of the wider ones, so it finds them again."""
        narrowest = likenesses[-1]
        means = self._of_peers.get(narrowest)
        if means is None:
            means = tuple([self._means.setdefault(one, RollingMean()) for one in likenesses])
            self._of_peers[narrowest] = means
        return means

    def _guess_ms(self, job_id: str, means: tuple[RollingMean, ...], run_ms: int) -> int:
        """A guess from what has ended. The true run time is only kept for when the job has ended."""
        self._alive[job_id] = means, run_ms
        widest = means[0]
        guess_ms = widest.mean_ms if widest.count else float(FIRST_GUESS_MS)
        for mean in means[1:]:
            if mean.count:
                guess_ms = mean.drawn_to(guess_ms)
        return max(1, round(guess_ms))


_NOBODY: Final[tuple[tuple[RollingMean, ...], int]] = ((), 0)


def _likenesses(job: TraceJob) -> tuple[Likeness, ...]:
    """From the widest to the narrowest. A trace that names no users has teams in their place."""
    team, user, size = job.team, job.user, job.gpu_total_milli
    return (
        (),
        (team,),
        (team, user, size),
        (team, user, size, job.name),
    )


def _likenesses_of(spec: JobSpec) -> tuple[Likeness, ...]:
    """The same of a job as it was submitted; its user and name are in what it says it is like."""
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
