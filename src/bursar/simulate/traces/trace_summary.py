"""Summarises a trace: jobs, GPU-hours, sizes, run times, teams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bursar.simulate.workload.trace import BadRow, Trace, TraceJob

HOUR_MS = 3_600_000
QUANTILES = (50, 90, 99)
SHOWN_TEAMS = 10
SHOWN_BAD_ROWS = 5

# The most GPUs in a size class, and its name.
_SIZES = ((1, "1"), (2, "2"), (4, "3-4"), (8, "5-8"), (16, "9-16"), (32, "17-32"), (64, "33-64"))
_LARGER = "65 and more"
_NO_GPU = "no GPU"
_FRACTION = "part of a GPU"
SIZE_CLASSES = (_NO_GPU, _FRACTION, *(name for _, name in _SIZES), _LARGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamShare:
    """The jobs and GPU-hours of a team."""

    team: str
    jobs: int
    gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """A trace in a few numbers; ``load`` is its GPU time over that of ``fleet_gpus``."""

    source: str
    jobs: int
    span_ms: int
    gpu_hours: float
    teams: tuple[TeamShare, ...]
    users: int
    sizes: tuple[tuple[str, int], ...]
    run_quantiles_ms: tuple[tuple[int, int], ...]
    mean_run_ms: float
    jobs_per_hour: float
    with_deadline: int
    bad_rows: tuple[BadRow, ...]
    notes: tuple[str, ...]
    fleet_gpus: int | None = None
    load: float | None = None

    def lines(self) -> tuple[str, ...]:
        """The summary as text, one fact per line."""
        lines = [
            self.source,
            f"jobs        {self.jobs:,} over {self.span_ms / HOUR_MS:,.1f} h"
            f" ({self.jobs_per_hour:,.1f} an hour)",
            f"GPU-hours   {self.gpu_hours:,.0f}",
            f"run time    mean {_clock(self.mean_run_ms)}"
            + "".join(f", p{q} {_clock(time_ms)}" for q, time_ms in self.run_quantiles_ms),
            "GPUs a job  " + ", ".join(f"{name}: {count:,}" for name, count in self.sizes if count),
            f"teams       {len(self.teams):,}, users {self.users:,}",
        ]
        lines += [
            f"  {share.team}: {share.jobs:,} jobs, {share.gpu_hours:,.0f} GPU-hours"
            for share in self.teams[:SHOWN_TEAMS]
        ]
        if self.with_deadline:
            lines.append(f"deadlines   {self.with_deadline:,} jobs have one")
        if self.load is not None:
            lines.append(f"load        {self.load:.1%} of {self.fleet_gpus:,} GPUs")
        lines += [f"note        {note}" for note in self.notes]
        lines.append(f"bad rows    {len(self.bad_rows):,}")
        lines += [f"  {row}" for row in self.bad_rows[:SHOWN_BAD_ROWS]]
        return tuple(lines)


def describe(trace: Trace, *, gpus: int | None = None) -> TraceSummary:
    """Summarises a trace; the load is over the span from the first submission to the last."""
    jobs = trace.jobs
    span_ms = jobs[-1].submitted_ms if jobs else 0
    gpu_hours = sum(_gpu_hours(job) for job in jobs)
    sizes = Counter(_size(job) for job in jobs)
    runs = sorted(job.run_ms for job in jobs)
    return TraceSummary(
        source=trace.source,
        jobs=len(jobs),
        span_ms=span_ms,
        gpu_hours=gpu_hours,
        teams=_teams(jobs),
        users=len({job.user for job in jobs if job.user}),
        sizes=tuple((name, sizes[name]) for name in SIZE_CLASSES),
        run_quantiles_ms=tuple((q, _quantile(runs, q)) for q in QUANTILES),
        mean_run_ms=sum(runs) / len(runs) if runs else 0.0,
        jobs_per_hour=len(jobs) * HOUR_MS / span_ms if span_ms else 0.0,
        with_deadline=sum(job.deadline_ms is not None for job in jobs),
        bad_rows=trace.bad_rows,
        notes=trace.notes,
        fleet_gpus=gpus,
        load=gpu_hours * HOUR_MS / (span_ms * gpus) if gpus and span_ms else None,
    )


def _teams(jobs: Sequence[TraceJob]) -> tuple[TeamShare, ...]:
    """The teams, those with the most GPU time first."""
    counts: Counter[str] = Counter()
    hours: dict[str, float] = {}
    for job in jobs:
        counts[job.team] += 1
        hours[job.team] = hours.get(job.team, 0.0) + _gpu_hours(job)
    ranked = sorted(counts, key=lambda team: (-hours[team], team))
    return tuple(TeamShare(team=team, jobs=counts[team], gpu_hours=hours[team]) for team in ranked)


def _gpu_hours(job: TraceJob) -> float:
    return job.gpu_total_milli * job.run_ms / (1_000 * HOUR_MS)


def _size(job: TraceJob) -> str:
    gpus = job.tasks * job.gpus
    if not gpus:
        return _FRACTION if job.gpu_milli else _NO_GPU
    return next((name for largest, name in _SIZES if gpus <= largest), _LARGER)


def _quantile(ascending: Sequence[int], percent: int) -> int:
    """Returns the nearest-rank quantile, which is always a value of the list."""
    if not ascending:
        return 0
    return ascending[max(0, -(-len(ascending) * percent // 100) - 1)]


def _clock(time_ms: float) -> str:
    time_s = time_ms / 1_000
    if time_s < 120:
        return f"{time_s:.0f} s"
    if time_s < 7_200:
        return f"{time_s / 60:.0f} min"
    return f"{time_s / 3_600:.1f} h"
