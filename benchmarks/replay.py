"""(e) Jobs per CPU-second of a real trace through the simulator, with the full core.

The time includes reading the trace, converting it, and the run, with the quota tree, fair share and holds of
a live fleet. The figures of other simulators are CPU seconds of their whole processes too, measured on a
similar machine.
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
    TraceMapping,
    as_scenario,
)
from tests.support import fleet_of, pool, queue, tenant

TRACES = Path(os.environ.get("BURSAR_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
PHILLY = TRACES / "philly" / "philly_passed_82247.csv.xz"
MACHINES = TRACES / "philly" / "philly_vc_nodes_helios.csv"
SLICE = TRACES / "bench" / "philly_5000_20171106.csv"
SLICE_NODES = 48
FLAVOR = "a100-80gb/owned"
OTHER_SIMULATORS = (
    "Helios 119-486, Tiresias 228-263, fleetsim 267-1,327, Gavel 29-39, Sia/Pollux 0.06-5"
)

NON_PREEMPTIVE = (
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
SLICE_REFERENCES = {
    "fifo-strict": "Helios 135, Tiresias 263, fleetsim 267 on this input",
    "fifo": "Tiresias 237, fleetsim 451 on this input",
    "sjf": "Helios 478, fleetsim 1,327 on this input",
    "sjf-skip": "fleetsim 1,141 on this input",
    "service-first": "Helios QSSF 486 on this input",
    "bursar": "no other simulator has this policy",
    "srtf": "Helios 119 on this input",
    "las": "Tiresias 228 on this input",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSetup:
    """A trace, its fleet and its tenants. Without tenants all jobs share one queue."""

    name: str
    trace: Path
    nodes: int
    tenants: tuple[Tenant, ...] = ()


def figures() -> list[Figure]:
    """All of Philly on its own nodes, the slice that other simulators use, and a generated month."""
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
    philly, philly_slice = _philly(), _slice()
    rows = [_replay(philly, name, f"target 20,000; {OTHER_SIMULATORS}") for name in NON_PREEMPTIVE]
    rows += [_replay(philly, name, f"target 5,000; {OTHER_SIMULATORS}") for name in PREEMPTIVE]
    rows += [_replay(philly_slice, name, reference) for name, reference in SLICE_REFERENCES.items()]
    return rows + month.figures()


def _philly() -> TraceSetup:
    """Philly's nodes by virtual cluster, as published; each is a queue that may lend its quota."""
    with MACHINES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    sizes = {name: int(nodes) for name, nodes in rows}
    nodes = sum(sizes.values())
    queues = tuple(queue(name, "philly", {FLAVOR: 8 * size}) for name, size in sizes.items())
    name = f"(e) Philly, 82,247 jobs, {nodes} x 8 GPUs, {len(sizes)} queues with quota"
    return TraceSetup(name=name, trace=PHILLY, nodes=nodes, tenants=(tenant("philly"), *queues))


def _slice() -> TraceSetup:
    name = f"(e') Philly, 5,000 jobs, {SLICE_NODES} x 8 GPUs, one queue, at most 3,900 waiting"
    return TraceSetup(name=name, trace=SLICE, nodes=SLICE_NODES)


def _scenario(setup: TraceSetup, choice: PolicyChoice) -> tuple[Scenario, Predictor | None]:
    trace = read_trace(str(setup.trace))
    predictor = Predictor() if choice.estimates is RunTimeSource.LEARNED else None
    workload = Workload(jobs=trace, count=len(trace))
    run = as_scenario(
        trace if predictor is None else workload.learning(predictor),
        fleet_of(pool("a100", setup.nodes)),
        setup.tenants or (queue("default"),),
        choice.policies,
        TraceMapping(
            teams_share_a_queue=not setup.tenants, any_model=True, estimate=choice.estimates
        ),
    )
    tenants = choice.tenants(run.scenario.tenants)
    no_delays = Delays(start_ms=0, stop_ms=0)
    return replace(run.scenario, tenants=tenants, delays=no_delays), predictor


def _replay(setup: TraceSetup, name: str, reference: str) -> Figure:
    choice = choose_policy(name, Policies())
    watch = Stopwatch()
    ended = 0
    with watch.lap():
        with rare_gc_in_a_run():
            scenario, predictor = _scenario(setup, choice)
        with rare_gc_in_a_run():
            for step in Simulation(scenario).steps():
                if predictor is not None:
                    predictor.apply_all(step.events)
                for event in step.events:
                    if type(event) is AttemptSucceeded:
                        ended += 1
    return Figure(
        scenario=setup.name,
        what=f"jobs per CPU-second, {name}",
        measured=f"{ended / watch.total:,.0f}",
        reference=reference,
    )
