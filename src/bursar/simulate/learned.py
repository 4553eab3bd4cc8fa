"""Run times learned from a trace's own past, for policies that are not told the future.

A job is guessed from jobs like it that have ended: of the same user, name and size; of the same user
and size; of the same team; of anyone. Each level is drawn towards the wider one for as long as it has
seen little. Nothing is learned before a job ends in the run, so a guess never knows more than a
scheduler could.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from bursar.model.event import AttemptSucceeded, Event, JobCancelled, JobSubmitted
from bursar.model.job import JobSpec, MpsShare, WholeGpus
from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.trace import TraceJob

FIRST_GUESS_MS = HOUR_MS
"""What is guessed before any job has ended."""

MEMORY = 256
"""A mean rolls over about so many jobs. With far fewer, one long job is taken for a habit, and those
like it starve behind everyone else."""

DOUBT = 2.0
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
        self._alive: dict[str, tuple[tuple[Likeness, ...], int]] = {}

    def guesses(self, jobs: Iterable[TraceJob]) -> Iterator[TraceJob]:
        """The jobs, each with a guess in place of what its user wrote.

        Drawn one by one as the run needs them, a guess counts on every job that had ended when the
        job before was submitted.
        """
        for job in jobs:
            guess_ms = self.guess_ms(job.job_id, _likenesses(job), job.run_ms)
            yield replace(job, expected_ms=guess_ms)

    def guess_submitted(self, event: JobSubmitted, run_ms: int) -> JobSubmitted:
        """The same for a job of a recorded history, which its queue, name and size make alike."""
        spec = event.spec
        likenesses = _likenesses_of(spec)
        guess_ms = self.guess_ms(event.job_id, likenesses, run_ms)
        return replace(event, spec=replace(spec, expected_run_ms=guess_ms))

    def guess_ms(self, job_id: str, likenesses: tuple[Likeness, ...], run_ms: int) -> int:
        """A guess from what has ended. The true run time is only kept for when the job has ended."""
        self._alive[job_id] = likenesses, run_ms
        return self._guess_ms(likenesses)

    def follow_all(self, events: Iterable[Event]) -> None:
        """Learn from jobs that have ended well; forget those that were given up."""
        for event in events:
            if isinstance(event, AttemptSucceeded | JobCancelled):
                self._follow(event)

    def _follow(self, event: AttemptSucceeded | JobCancelled) -> None:
        if isinstance(event, AttemptSucceeded):
            likenesses, run_ms = self._alive.pop(event.job_id, ((), 0))
            for likeness in likenesses:
                self._means.setdefault(likeness, RollingMean()).add(run_ms)
        else:
            self._alive.pop(event.job_id, None)

    def _guess_ms(self, likenesses: tuple[Likeness, ...]) -> int:
        guess_ms: float = FIRST_GUESS_MS
        for number, likeness in enumerate(likenesses):
            mean = self._means.get(likeness)
            if mean is not None:
                guess_ms = mean.drawn_to(guess_ms) if number else mean.mean_ms
        return max(1, round(guess_ms))


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
        (spec.queue, *spec.alike, size),
        (spec.queue, *spec.alike, size, spec.name),
    )


def _gpu_milli(request: object) -> int:
    match request:
        case WholeGpus(count=count):
            return count * MILLI
        case MpsShare(percent=percent):
            return percent * MILLI // 100
        case _:
            return 0
