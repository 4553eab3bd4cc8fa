"""The workload of a run: a trace file, or a workload generated from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from bursar.model.errors import UserError
from bursar.model.suggestion import suggest_among
from bursar.simulate.traces import read_trace
from bursar.simulate.workload.generate.draw import stream
from bursar.simulate.workload.generate.presets import preset
from bursar.simulate.workload.generate.workload import SyntheticWorkload
from bursar.simulate.workload.run_time_predictor import Predictor
from bursar.simulate.workload.trace import BadRow, Trace, TraceJob
from bursar.simulate.workload.trace_scenario import JobStream

SYNTHETIC = "synthetic:"
"""Prefix of a generated workload: ``synthetic:philly-like?jobs=2000&load=0.9``."""

SETTINGS = ("jobs", "jobs_per_day", "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """Where jobs come from. ``seed`` and ``gpus`` are for generated workloads."""

    name: str
    format: str | None = None
    limit: int | None = None
    seed: int = 0
    gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to run, their number, and remarks of the reader."""

    jobs: Trace | JobStream
    count: int
    bad_rows: tuple[BadRow, ...] = ()
    notes: tuple[str, ...] = ()

    def learning(self, predictor: Predictor) -> JobStream:
        """The same jobs as a stream, each with a predicted run time."""
        jobs = self.jobs
        if isinstance(jobs, JobStream):
            return replace(jobs, guess=predictor.guess)
        teams = tuple(sorted({job.team for job in jobs}))
        return JobStream(
            source=jobs.source, teams=teams, draw=lambda: iter(jobs), guess=predictor.guess
        )

    def trace(self) -> Trace:
        jobs = self.jobs
        if isinstance(jobs, JobStream):
            return Trace(source=jobs.source, jobs=tuple(jobs.draw()))
        return jobs


def open_workload(source: WorkloadSource) -> Workload:
    """Reads or prepares the workload that a source names."""
    if source.name.startswith(SYNTHETIC):
        return _generated(source)
    trace = read_trace(source.name, source.format)
    if source.limit is not None:
        trace = replace(trace, jobs=trace.jobs[: source.limit])
    return Workload(jobs=trace, count=len(trace), bad_rows=trace.bad_rows, notes=trace.notes)


# -- generated workloads -----------------------------------------------------------------------------


def _generated(source: WorkloadSource) -> Workload:
    workload = _preset_with_settings(source)
    jobs = stream(workload, source.seed)
    count = workload.jobs if source.limit is None else min(workload.jobs, source.limit)

    def draw() -> Iterator[TraceJob]:
        return islice(jobs.draw(), count)

    return Workload(jobs=replace(jobs, source=source.name, draw=draw), count=count)


def _preset_with_settings(source: WorkloadSource) -> SyntheticWorkload:
    name, _, settings = source.name.removeprefix(SYNTHETIC).partition("?")
    values = dict(_setting(source, part) for part in settings.split("&") if part)
    jobs = values.get("jobs")
    workload = preset(
        name, jobs=None if jobs is None else round(jobs), jobs_per_day=values.get("jobs_per_day")
    )
    if "load" not in values:
        return workload
    if not source.gpus:
        problem = "load is a fraction of a fleet's GPUs, and there is no fleet"
        raise _bad(source, problem, "--fleet FILE")
    return workload.at_load(source.gpus, values["load"])


def _setting(source: WorkloadSource, part: str) -> tuple[str, float]:
    key, _, value = part.partition("=")
    if key not in SETTINGS:
        raise UserError(
            f"{source.name}: {key!r} is not a setting.",
            fix=suggest_among(key, SETTINGS),
            code="bad-workload",
        )
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e12 or (key == "jobs" and number != round(number)):
        kind = "a whole number above 0" if key == "jobs" else "a number above 0"
        raise _bad(source, f"{key} is {value!r}", kind)
    return key, number


def _bad(source: WorkloadSource, problem: str, wanted: str) -> UserError:
    return UserError(f"{source.name}: {problem}.", fix=f"Write {wanted}.", code="bad-workload")
