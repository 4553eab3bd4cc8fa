"""Run times of a tenant's own jobs, kept by what they have in common, for estimates of jobs to come.

A fold of the event log. Jobs that still run count too, with what they have run so far: jobs that have
ended are the short ones of those that were started, and an estimate from them alone would be too low.
What an attempt lost, and what a restart cost, is not the job's own run time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from bursar.accounting.estimates.run_time import RunTime
from bursar.model.event import (
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    JobCancelled,
    JobSubmitted,
    LoggedEvent,
)
from bursar.model.jobs.job import JobSpec, WholeGpus
from bursar.model.units import write_duration

REMEMBERED = 200
"""So many of the newest runs are kept of each likeness."""
ENOUGH = 5
"""A likeness of which fewer have ended is passed over for a wider one."""

Likeness = tuple[str | int, ...]
Followed = AttemptStarted | CheckpointSaved | AttemptSucceeded | AttemptPreempted | AttemptFailed


class _Run:
    """A job that was started: the work it has done, since when it does more, and whether that was all."""

    __slots__ = ("done_ms", "has_started", "is_whole", "since_ms", "spec")

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.done_ms = 0
        self.since_ms: int | None = None
        self.has_started = self.is_whole = False

    def so_far_ms(self, now_ms: int) -> int:
        return self.done_ms + (0 if self.since_ms is None else max(0, now_ms - self.since_ms))


class RunTimeHistory:
    """Tell it of events; ask it for a job's run time."""

    def __init__(self) -> None:
        self._runs: dict[Likeness, deque[_Run]] = {}
        self._live: dict[str, _Run] = {}

    def apply(self, event: LoggedEvent) -> None:
        """Follow jobs from their submission to their end."""
        if isinstance(event, JobSubmitted):
            self._live[event.job_id] = _Run(event.spec)
        elif isinstance(event, JobCancelled):
            run = self._live.pop(event.job_id, None)
            if run is not None:
                _pause(run, event.at_ms)
        elif isinstance(event, Followed):
            run = self._live.get(event.job_id)
            if run is not None:
                self._follow(run, event)

    def run_time(self, spec: JobSpec, now_ms: int) -> RunTime | None:
        """What the narrowest likeness of which enough have ended tells; None where there is none."""
        for likeness, like in reversed(likenesses(spec)):
            runs = self._runs.get(likeness, ())
            ended = sum(run.is_whole for run in runs)
            if ended < ENOUGH:
                continue
            seen = [(run.so_far_ms(now_ms), run.is_whole) for run in runs]
            p50_ms, p90_ms = product_limit(seen, (500, 900))
            half, nine = write_duration(p50_ms), write_duration(p90_ms)
            found = RunTime(
                p50_ms=p50_ms,
                p90_ms=p90_ms,
                basis=f"of {len(runs):,} jobs {like} half ran up to {half}, nine in ten up to {nine}",
            )
            return found.at_most(spec.max_run_ms)
        return None

    def _follow(self, run: _Run, event: Followed) -> None:
        if isinstance(event, AttemptStarted):
            restart_ms = run.spec.checkpoint.restart_ms if run.done_ms else 0
            run.since_ms = event.at_ms + restart_ms
            if not run.has_started:
                run.has_started = True
                for likeness, _ in likenesses(run.spec):
                    self._runs.setdefault(likeness, deque(maxlen=REMEMBERED)).append(run)
        elif isinstance(event, CheckpointSaved):
            _pause(run, event.at_ms)
            run.since_ms = event.at_ms
        elif isinstance(event, AttemptSucceeded):
            _pause(run, event.at_ms)
            run.is_whole = True
            del self._live[event.job_id]
        else:
            run.since_ms = None


def _pause(run: _Run, at_ms: int) -> None:
    run.done_ms = run.so_far_ms(at_ms)
    run.since_ms = None


def product_limit(seen: Iterable[tuple[int, bool]], permilles: Iterable[int]) -> tuple[int, ...]:
    """Quantiles of run times some of which are not over yet (Kaplan and Meier).

    Each of ``seen`` is how long a job ran, and whether it has ended by itself. Where too few have ended
    to tell, the longest of all is the answer, which is then too short.
    """
    ascending = sorted((run_ms, not whole) for run_ms, whole in seen)
    wanted = list(permilles)
    found: list[int] = []
    survive, at_risk = 1.0, len(ascending)
    for run_ms, still_runs in ascending:
        if not still_runs:
            survive *= (at_risk - 1) / at_risk
        at_risk -= 1
        while len(found) < len(wanted) and 1.0 - survive >= wanted[len(found)] / 1_000 - 1e-12:
            found.append(run_ms)
    longest = ascending[-1][0] if ascending else 0
    return (*found, *[longest] * (len(wanted) - len(found)))


def likenesses(spec: JobSpec) -> tuple[tuple[Likeness, str], ...]:
    """From the widest to the narrowest, each with the words for it: one's own queue, and what is alike."""
    size = sum(g.count * g.gpu.count for g in spec.groups if isinstance(g.gpu, WholeGpus))
    found: list[tuple[Likeness, str]] = [
        ((spec.queue,), f"of {spec.queue}"),
        ((spec.queue, size), f"of {spec.queue} with {size} GPUs"),
    ]
    names = (
        spec.similarity_keys
        if not spec.name or spec.name in spec.similarity_keys
        else (*spec.similarity_keys, spec.name)
    )
    for length in range(1, len(names) + 1):
        some = names[:length]
        found.append(((spec.queue, size, *some), f"of {'/'.join(some)} with {size} GPUs"))
    return tuple(found)
