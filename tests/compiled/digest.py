"""The result of runs with all features, as one line of text: ``python -m tests.compiled.digest``."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace

from bursar.core import cycle
from bursar.model.tenants.policy import Policies
from bursar.model.units import DAY_MS, HOUR_MS
from bursar.simulate.faults import Faults, NodeLosses, Stragglers
from bursar.simulate.named_policies import choose_policy
from bursar.simulate.simulation import Simulation
from bursar.simulate.workload.generate.draw import stream
from bursar.simulate.workload.generate.presets import preset
from bursar.simulate.workload.run_time_predictor import Predictor
from bursar.simulate.workload.trace_scenario import TraceMapping, as_scenario
from tests.support import fleet_of, pool, queue, tenant

POLICIES = ("fifo-strict", "sjf-skip", "fair-tree", "las", "srtf", "bursar")
JOBS = 600


def digest_of(policy: str) -> str:
    """A digest of every event and decision of two busy weeks in which nodes and jobs fail."""
    drawn = stream(preset("philly-like", jobs=JOBS, jobs_per_day=JOBS / 3), seed=5)
    queues = tuple(queue(team, "org", {"a100-80gb/owned": 16}) for team in drawn.teams)
    choice = choose_policy(policy, Policies())
    run = as_scenario(
        replace(drawn, guess=Predictor().guess),
        fleet_of(pool("a100", 12)),
        (tenant("org"), *queues),
        choice.policies,
        TraceMapping(any_model=True, retries=2),
    )
    faults = Faults(
        seed=3,
        until_ms=4 * DAY_MS,
        node_losses=NodeLosses(per_million_hours=40_000, mean_repair_ms=HOUR_MS),
        stragglers=Stragglers(chance=0.1),
        failure_chance=0.05,
    )
    tenants = choice.tenants(run.scenario.tenants)
    scenario = replace(run.scenario, tenants=tenants, faults=faults)
    digest = hashlib.sha256()
    for step in Simulation(scenario).steps():
        digest.update(repr((step.now_ms, step.events, step.decisions, step.committed)).encode())
    return digest.hexdigest()


def digests() -> dict[str, str]:
    """The digest of each policy."""
    return {policy: digest_of(policy) for policy in POLICIES}


if __name__ == "__main__":
    sys.stdout.write(f"{cycle.__file__}\n")
    for name, found in digests().items():
        sys.stdout.write(f"{name} {found}\n")
