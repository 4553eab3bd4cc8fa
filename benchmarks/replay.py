"""(e) A real trace through the simulator, with the whole core: jobs for each second of CPU.

Counted is all that a user pays for: reading the trace, putting it into our words, and the run, with the
quota tree, fair share and holds that a live fleet would have. The peers' figures are CPU seconds of their
whole processes too, measured on the same kind of machine.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path

import studies.formats  # noqa: F401  registers the formats of the traces
from benchmarks import month
from benchmarks.figure import Figure, Stopwatch
from bursar.gc_tuning import rare_gc_in_a_run
from bursar.model.event import AttemptSucceeded
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.named_policies import PolicyChoice, RunTimeSource, choose_policy
from bursar.simulate.runs.workload_source import Workload
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from bursar.simulate.traces import read_trace
from bursar.simulate.workload.run_time_predictor import Predictor
from bursar.simulate.workload.trace_scenario import (
    EstimateSource,
    TraceMapping,
    UnknownTeams,
    as_scenario,
)
from tests.support import fleet_of, pool, queue, tenant

TRACES = Path(os.environ.get("BURSAR_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
PHILLY = TRACES / "philly" / "philly_passed_82247.csv.xz"
MACHINES = TRACES / "philly" / "philly_vc_nodes_helios.csv"
SLICE = TRACES / "bench" / "philly_5000_20171106.csv"
SLICE_NODES = 48
FLAVOR = "a100-80gb/owned"
PEERS = "Helios 119-486, Tiresias 228-263, fleetsim 267-1,327, Gavel 29-39, Sia/Pollux 0.06-5"

CALM = (
    "fifo-strict",
    "fifo",
    "sjf",
    "sjf-skip",
    "service-first",
    "qssf",
    "dominant-share",
    "fair-tree",
    "bursar",
)
PREEMPTIVE = ("srtf", "las")
ON_THE_SLICE = {
    "fifo-strict": "Helios 135, Tiresias 263, fleetsim 267 on this input",
    "fifo": "Tiresias 237, fleetsim 451 on this input",
    "sjf": "Helios 478, fleetsim 1,327 on this input",
    "sjf-skip": "fleetsim 1,141 on this input",
    "service-first": "Helios QSSF 486 on this input",
    "bursar": "no peer has this policy",
    "srtf": "Helios 119 on this input",
    "las": "Tiresias 228 on this input",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A trace and what it runs on. Without tenants all jobs wait in one queue."""

    name: str
    trace: Path
    nodes: int
    tenants: tuple[Tenant, ...] = ()


def figures() -> list[Figure]:
    """All of Philly on its own machines, the peers' slice of it on theirs, and a month of a million jobs."""
    missing = [path for path in (PHILLY, MACHINES, SLICE) if not path.exists()]
    if missing:
        return [
            Figure(
                scenario="(e) Philly through the simulator",
                what="not run",
                measured="-",
                reference=f"no trace at {missing[0]}; set BURSAR_TRACES",
            ),
            *month.figures(),
        ]
    whole, part = _philly(), _slice()
    found = [_replay(whole, name, f"target 20,000; {PEERS}") for name in CALM]
    found += [_replay(whole, name, f"target 5,000; {PEERS}") for name in PREEMPTIVE]
    found += [_replay(part, name, reference) for name, reference in ON_THE_SLICE.items()]
    return found + month.figures()


def _philly() -> Ground:
    """Philly's machines by virtual cluster, as published: each is a queue that may lend what it leaves."""
    with MACHINES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    sizes = {name: int(nodes) for name, nodes in rows}
    nodes = sum(sizes.values())
    queues = tuple(queue(name, "philly", {FLAVOR: 8 * size}) for name, size in sizes.items())
    name = f"(e) Philly, 82,247 jobs, {nodes} x 8 GPUs in {len(sizes)} queues and more"
    return Ground(name=name, trace=PHILLY, nodes=nodes, tenants=(tenant("philly"), *queues))


def _slice() -> Ground:
    name = (
        f"(e') Philly, the peers' 5,000 jobs, {SLICE_NODES} x 8 GPUs, one queue, up to 3,900 wait"
    )
    return Ground(name=name, trace=SLICE, nodes=SLICE_NODES)


def _scenario(ground: Ground, choice: PolicyChoice) -> tuple[Scenario, Predictor | None]:
    trace = read_trace(str(ground.trace))
    told = (
        EstimateSource.TRUE if choice.estimates is RunTimeSource.ORACLE else EstimateSource.WRITTEN
    )
    teams = UnknownTeams.OWN_QUEUE if ground.tenants else UnknownTeams.DEFAULT_QUEUE
    predictor = Predictor() if choice.estimates is RunTimeSource.LEARNED else None
    workload = Workload(jobs=trace, count=len(trace))
    run = as_scenario(
        trace if predictor is None else workload.learning(predictor),
        fleet_of(pool("a100", ground.nodes)),
        ground.tenants or (queue("default"),),
        choice.policies,
        TraceMapping(unknown_teams=teams, any_model=True, estimate=told),
    )
    tenants = choice.tenants(run.scenario.tenants)
    at_once = Delays(start_ms=0, stop_ms=0)
    return replace(run.scenario, tenants=tenants, delays=at_once), predictor


def _replay(ground: Ground, name: str, reference: str) -> Figure:
    choice = choose_policy(name, Policies())
    watch = Stopwatch()
    ended = 0
    with watch.lap():
        with rare_gc_in_a_run():
            scenario, predictor = _scenario(ground, choice)
        with rare_gc_in_a_run():
            for step in Simulation(scenario).steps():
                if predictor is not None:
                    predictor.apply_all(step.events)
                for event in step.events:
                    if type(event) is AttemptSucceeded:
                        ended += 1
    return Figure(
        scenario=ground.name,
        what=f"jobs per CPU-second, {name}",
        measured=f"{ended / watch.total:,.0f}",
        reference=reference,
    )
