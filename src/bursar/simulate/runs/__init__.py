"""Prepares and runs simulations, comparisons and what-ifs."""

from bursar.simulate.runs.run import PreparedRun, prepare, prepare_and_run
from bursar.simulate.runs.run_outcome import RunOutcome
from bursar.simulate.runs.run_request import FleetChoice, RunRequest

__all__ = [
    "FleetChoice",
    "PreparedRun",
    "RunOutcome",
    "RunRequest",
    "prepare",
    "prepare_and_run",
]
