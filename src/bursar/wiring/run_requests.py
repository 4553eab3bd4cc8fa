"""Requests for simulated runs, built from command-line options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bursar.config import read_fleet
from bursar.simulate.named_policies import FLEET
from bursar.simulate.runs import FleetChoice, RunRequest
from bursar.simulate.scenario import Delays
from bursar.simulate.workload.trace_scenario import TraceMapping

__all__ = ["Delays", "RunRequest", "TraceMapping", "choose_fleet", "every_run"]


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
