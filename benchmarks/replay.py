"""(e) A real trace through the simulator, with the whole core: jobs for each second of CPU.

The peers' figures are from their own simulators on the same kind of input; ours decides with the quota
tree, fair share and holds that a live fleet would have.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.figure import Figure, Stopwatch
from bursar.model.event import AttemptSucceeded
from bursar.model.policy import Policies
from bursar.simulate.from_trace import TraceMapping, UnknownTeams, as_scenario
from bursar.simulate.loop import Simulation
from bursar.simulate.policies import choose_policy
from bursar.simulate.readers import read_trace
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.trace import Trace
from bursar.testing import fleet_of, pool, queue

TRACES = Path(os.environ.get("BURSAR_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
PHILLY = TRACES / "philly" / "philly_passed_82247.csv.xz"
JOBS, NODES = 20_000, 64
POLICIES = ("fifo-strict", "sjf", "service-first", "bursar")


def figures() -> list[Figure]:
    """The first jobs of Philly on 512 GPUs, which are too few for them: the backlog is long."""
    if not PHILLY.exists():
        return [
            Figure(
                scenario="(e) Philly through the simulator",
                what="not run",
                measured="-",
                reference=f"no trace at {PHILLY}; set BURSAR_TRACES",
            )
        ]
    trace = read_trace(str(PHILLY))
    first = Trace(source=trace.source, jobs=trace.jobs[:JOBS])
    return [_replay(first, name) for name in POLICIES]


def _scenario(trace: Trace, name: str) -> Scenario:
    choice = choose_policy(name, Policies())
    run = as_scenario(
        trace,
        fleet_of(pool("a100", NODES)),
        (queue("default"),),
        choice.policies,
        TraceMapping(unknown_teams=UnknownTeams.DEFAULT_QUEUE, any_model=True),
    )
    scenario = run.scenario
    return Scenario(
        fleet=scenario.fleet,
        tenants=choice.tenants(scenario.tenants),
        policies=scenario.policies,
        events=scenario.events,
        run_ms=scenario.run_ms,
        delays=Delays(start_ms=0, stop_ms=0),
    )


def _replay(trace: Trace, name: str) -> Figure:
    watch = Stopwatch()
    ended = 0
    with watch.lap():
        for step in Simulation(_scenario(trace, name)).steps():
            ended += sum(isinstance(event, AttemptSucceeded) for event in step.events)
    return Figure(
        scenario=f"(e) {len(trace):,} Philly jobs on {NODES * 8} GPUs, {name}",
        what="jobs per CPU-second",
        measured=f"{ended / watch.total:,.0f}",
        reference="Helios 119-486, Tiresias 228-263, fleetsim 267-1,327",
    )
