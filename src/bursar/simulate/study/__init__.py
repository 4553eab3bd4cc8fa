"""Studies: one workload on one or several fleets, under one or several policies, and what came of it."""

from bursar.simulate.study.follow import Progress, Watch
from bursar.simulate.study.outcome import RunOutcome
from bursar.simulate.study.request import FleetChoice, RunRequest, WorkloadOptions
from bursar.simulate.study.run import PreparedRun, prepare
from bursar.simulate.study.side_by_side import Board, run_side_by_side

__all__ = [
    "Board",
    "FleetChoice",
    "PreparedRun",
    "Progress",
    "RunOutcome",
    "RunRequest",
    "Watch",
    "WorkloadOptions",
    "prepare",
    "run_side_by_side",
]
