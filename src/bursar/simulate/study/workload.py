"""The workload of a study: a trace from a file, cut to the first so many jobs if asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from bursar.simulate.from_trace import JobStream
from bursar.simulate.learned import Predictor
from bursar.simulate.readers import read_trace
from bursar.simulate.study.request import WorkloadOptions
from bursar.simulate.trace import BadRow, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs to run, how many if that is known, and what was said while they were read."""

    jobs: Trace | JobStream
    count: int | None
    bad_rows: tuple[BadRow, ...] = ()
    notes: tuple[str, ...] = ()

    def learning(self, predictor: Predictor) -> JobStream:
        """The same jobs one by one, each with a guess of its run time made when it is drawn."""
        jobs = self.jobs
        if isinstance(jobs, JobStream):
            return replace(jobs, draw=lambda: predictor.guesses(jobs.draw()))
        teams = tuple(sorted({job.team for job in jobs}))
        return JobStream(
            source=jobs.source, teams=teams, draw=lambda: predictor.guesses(iter(jobs))
        )


def open_workload(source: str, options: WorkloadOptions) -> Workload:
    """Read what a source names."""
    trace = read_trace(source, options.format)
    if options.limit is not None:
        trace = replace(trace, jobs=tuple(islice(trace.jobs, options.limit)))
    return Workload(jobs=trace, count=len(trace), bad_rows=trace.bad_rows, notes=trace.notes)
