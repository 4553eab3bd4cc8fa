"""Expected run time of a job, from its user's figures or from earlier runs of similar jobs of its queue.

Running jobs count too, with their run time so far: an estimate from finished jobs alone would be too low,
because short jobs finish first. Lost work and restarts are not part of a job's run time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

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

RUNS_PER_KEY = 200
"""Number of newest runs that are stored for each key."""
MIN_ENDED = 5
"""A key with fewer finished runs is skipped for a wider one."""

SimilarityKey = tuple[str | int, ...]
Followed = AttemptStarted | CheckpointSaved | AttemptSucceeded | AttemptPreempted | AttemptFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """Median and P90 of a run time, and what they are based on."""

    p50_ms: int
    p90_ms: int
    basis: str

    def at_most(self, limit_ms: int | None) -> RunTime:
        """The run time of a job that is stopped at a limit."""
        if limit_ms is None or self.p90_ms <= limit_ms:
            return self
        return RunTime(
            p50_ms=min(self.p50_ms, limit_ms),
            p90_ms=limit_ms,
            basis=f"{self.basis}, at most {write_duration(limit_ms)}",
        )


def user_estimate(spec: JobSpec) -> RunTime | None:
    """The user's expected run time; P90 is the job's limit, or half as long again."""
    expected_ms, limit_ms = spec.expected_run_ms, spec.max_run_ms
    if expected_ms is None and limit_ms is None:
        return None
    likely_ms = expected_ms or limit_ms or 0
    if expected_ms is None:
        return RunTime(
            p50_ms=likely_ms,
            p90_ms=likely_ms,
            basis=f"may run {write_duration(likely_ms)}; no expected run time is given",
        )
    longest_ms = likely_ms + likely_ms // 2 if limit_ms is None else limit_ms
    return RunTime(
        p50_ms=min(likely_ms, longest_ms),
        p90_ms=longest_ms,
        basis=f"expected to run {write_duration(likely_ms)}",
    )


# -- from earlier runs -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Run:
    """The run time of one job: completed work, and when the current work began."""

    spec: JobSpec
    done_ms: int = 0
    since_ms: int | None = None
    has_started: bool = False
    has_ended: bool = False

    def so_far_ms(self, now_ms: int) -> int:
        return self.done_ms + (0 if self.since_ms is None else max(0, now_ms - self.since_ms))


class RunTimeHistory:
    """Run times by similarity key, updated by each event."""

    def __init__(self) -> None:
        self._runs: dict[SimilarityKey, deque[_Run]] = {}
        self._live: dict[str, _Run] = {}

    def apply(self, event: LoggedEvent) -> None:
        """Applies one event of the log."""
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
        """The run time from the narrowest key with enough finished runs; None if there is none."""
        for key, description in reversed(similarity_levels(spec)):
            runs = self._runs.get(key, ())
            ended = sum(run.has_ended for run in runs)
            if ended < MIN_ENDED:
                continue
            run_times = [(run.so_far_ms(now_ms), run.has_ended) for run in runs]
            p50_ms, p90_ms = product_limit(run_times, (500, 900))
            p50, p90 = write_duration(p50_ms), write_duration(p90_ms)
            run_time = RunTime(
                p50_ms=p50_ms,
                p90_ms=p90_ms,
                basis=f"of {len(runs):,} jobs {description} 50 % ran up to {p50}, 90 % up to {p90}",
            )
            return run_time.at_most(spec.max_run_ms)
        return None

    def _follow(self, run: _Run, event: Followed) -> None:
        if isinstance(event, AttemptStarted):
            restart_ms = run.spec.checkpoint.restart_ms if run.done_ms else 0
            run.since_ms = event.at_ms + restart_ms
            if not run.has_started:
                run.has_started = True
                for key, _ in similarity_levels(run.spec):
                    self._runs.setdefault(key, deque(maxlen=RUNS_PER_KEY)).append(run)
        elif isinstance(event, CheckpointSaved):
            _pause(run, event.at_ms)
            run.since_ms = event.at_ms
        elif isinstance(event, AttemptSucceeded):
            _pause(run, event.at_ms)
            run.has_ended = True
            del self._live[event.job_id]
        else:
            run.since_ms = None


def _pause(run: _Run, at_ms: int) -> None:
    run.done_ms = run.so_far_ms(at_ms)
    run.since_ms = None


def product_limit(
    run_times: Iterable[tuple[int, bool]], permilles: Iterable[int]
) -> tuple[int, ...]:
    """Quantiles of run times some of which have not ended (Kaplan-Meier).

    Each run time comes with whether the job has ended. If too few have ended for a quantile, it is the
    longest run time, which is too short.
    """
    ascending = sorted((run_ms, not has_ended) for run_ms, has_ended in run_times)
    wanted = list(permilles)
    quantiles: list[int] = []
    survive, at_risk = 1.0, len(ascending)
    for run_ms, still_runs in ascending:
        if not still_runs:
            survive *= (at_risk - 1) / at_risk
        at_risk -= 1
        while (
            len(quantiles) < len(wanted) and 1.0 - survive >= wanted[len(quantiles)] / 1_000 - 1e-12
        ):
            quantiles.append(run_ms)
    longest = ascending[-1][0] if ascending else 0
    return (*quantiles, *[longest] * (len(wanted) - len(quantiles)))


def similarity_levels(spec: JobSpec) -> tuple[tuple[SimilarityKey, str], ...]:
    """Keys of similar jobs with their descriptions, from the widest to the narrowest."""
    size = sum(g.count * g.gpu.count for g in spec.groups if isinstance(g.gpu, WholeGpus))
    levels: list[tuple[SimilarityKey, str]] = [
        ((spec.queue,), f"of {spec.queue}"),
        ((spec.queue, size), f"of {spec.queue} with {size} GPUs"),
    ]
    names = (
        spec.similarity_keys
        if not spec.name or spec.name in spec.similarity_keys
        else (*spec.similarity_keys, spec.name)
    )
    for length in range(1, len(names) + 1):
        prefix = names[:length]
        levels.append(((spec.queue, size, *prefix), f"of {'/'.join(prefix)} with {size} GPUs"))
    return tuple(levels)
