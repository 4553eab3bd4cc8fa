"""Prepares and runs simulations, comparisons and what-ifs."""

from bursar.simulate.runs.parallel_runs import RunsWatcher, run_side_by_side
from bursar.simulate.runs.run import PreparedRun, prepare
from bursar.simulate.runs.run_outcome import RunOutcome
from bursar.simulate.runs.run_request import FleetChoice, RunRequest, WorkloadOptions
from bursar.simulate.runs.run_to_end import RunProgress, RunWatcher

__all__ = [
    "FleetChoice",
    "PreparedRun",
    "RunOutcome",
    "RunProgress",
    "RunRequest",
    "RunWatcher",
    "RunsWatcher",
    "WorkloadOptions",
    "prepare",
    "run_side_by_side",
]
