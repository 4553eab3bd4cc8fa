"""Simulated runs, comparisons and what-ifs for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bursar.config import read_fleet
from bursar.simulate.metrics import compare_json
from bursar.simulate.named_policies import FLEET, choose_policy
from bursar.simulate.parallel_tasks import Watch, run_in_parallel
from bursar.simulate.report.text import comparison_text, run_text
from bursar.simulate.runs import FleetChoice, RunOutcome, RunRequest, prepare, prepare_and_run
from bursar.simulate.runs.what_if import prepare_whatif
from bursar.simulate.scenario import Delays
from bursar.simulate.workload.trace_scenario import TraceMapping

__all__ = [
    "Delays",
    "RunRequest",
    "TraceMapping",
    "choose_fleet",
    "compare_runs",
    "comparison_json",
    "comparison_text",
    "every_run",
    "prepare",
    "prepare_whatif",
    "run_text",
]


def choose_fleet(path: str) -> FleetChoice:
    """Read a fleet file; results show the fleet by the file's name."""
    read = read_fleet(Path(path))
    return FleetChoice(
        name=Path(path).stem, fleet=read.fleet, tenants=read.tenants, policies=read.policies
    )


def every_run(
    request: RunRequest, fleets: Sequence[FleetChoice], policies: Sequence[str]
) -> list[RunRequest]:
    """The request for every fleet and policy, each named after what distinguishes it."""
    requests = []
    for fleet in fleets:
        for policy in policies or [""]:
            shown = [fleet.name] if len(fleets) > 1 else []
            shown += [policy or FLEET] if len(policies) > 1 or not shown else []
            requests.append(replace(request, name=" ".join(shown), fleet=fleet, policy=policy))
    return requests


def compare_runs(requests: Sequence[RunRequest], watch: Watch) -> list[RunOutcome]:
    """The runs in parallel processes."""
    for request in requests:
        choose_policy(request.policy, request.fleet.policies)
    return run_in_parallel(prepare_and_run, requests, watch)


def comparison_json(outcomes: Sequence[RunOutcome]) -> dict[str, Any]:
    """The comparison as JSON, with details of each run."""
    runs: list[Any] = []
    for outcome in outcomes:
        run = outcome.as_json()
        run.pop("summary")
        runs.append({"name": outcome.summary.name, **run})
    return {**compare_json([one.summary for one in outcomes]), "about": runs}
