"""(f) A month of a million jobs on 5,000 nodes, drawn, run and measured: time and memory.

Each run has a process of its own, because the most a process ever held is told for the whole of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

from benchmarks.figure import Figure, peak_memory_gb
from bursar.model.policy import Policies
from bursar.simulate.collector import seldom_collecting
from bursar.simulate.from_trace import TraceMapping, as_scenario
from bursar.simulate.generate import preset, stream
from bursar.simulate.loop import Simulation
from bursar.simulate.measures import Measures
from bursar.simulate.policies import choose_policy
from bursar.simulate.scenario import Scenario
from bursar.testing import fleet_of, pool, queue, tenant

NODES, DAYS, JOBS = 5_000, 30, 1_000_000
FEWER_JOBS = 250_000
POLICY = "bursar"
FLAVOR = "a100-80gb/owned"
STEPS_BETWEEN_LOOKS = 1_000


def _scenario(jobs: int) -> Scenario:
    """Like Philly's jobs, with a queue and an equal quota for each team."""
    workload = preset("philly-like", jobs=jobs, jobs_per_day=JOBS / DAYS)
    drawn = stream(workload, seed=1)
    each = NODES * 8 // len(drawn.teams)
    queues = tuple(queue(team, "org", {FLAVOR: each}) for team in drawn.teams)
    choice = choose_policy(POLICY, Policies())
    run = as_scenario(
        drawn,
        fleet_of(pool("a100", NODES)),
        (tenant("org"), *queues),
        choice.policies,
        TraceMapping(any_model=True),
    )
    return replace(run.scenario, tenants=choice.tenants(run.scenario.tenants))


def run(jobs: int) -> dict[str, float]:
    """One month, with every measure taken; in seconds, gigabytes and jobs."""
    began, began_cpu = time.perf_counter(), time.process_time()
    simulation = Simulation(_scenario(jobs))
    empty_gb = peak_memory_gb()
    measures = Measures(simulation.state)
    live = 0
    with seldom_collecting():
        for number, step in enumerate(simulation.steps()):
            measures.note(step)
            if number % STEPS_BETWEEN_LOOKS == 0:
                live = max(live, len(simulation.state.jobs))
        summary = measures.summary(POLICY)
    return {
        "wall_seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "empty_gb": empty_gb,
        "peak_gb": peak_memory_gb(),
        "live": live,
        "ended": summary.outcomes.succeeded,
        "allocated": summary.use.allocated,
    }


def _in_a_process(jobs: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.month", str(jobs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def figures() -> list[Figure]:
    """The month, and the memory of its first week beside that of all of it."""
    week, whole = _in_a_process(FEWER_JOBS), _in_a_process(JOBS)
    name = (
        f"(f) {whole['ended']:,.0f} jobs in {DAYS} days on {NODES:,} nodes, {POLICY}, all measures"
    )
    return [
        Figure(
            scenario=name,
            what="wall / CPU seconds",
            measured=f"{whole['wall_seconds']:.0f} / {whole['cpu_seconds']:.0f}",
            reference="target under 180 wall",
        ),
        Figure(
            scenario=name,
            what="jobs per CPU-second, drawing and measuring included",
            measured=f"{whole['ended'] / whole['cpu_seconds']:,.0f}",
            reference="FGD's Go simulator: 2.7 pods a second and 4.2 GB",
        ),
        Figure(
            scenario=name,
            what="peak memory, GB; most jobs alive at once",
            measured=f"{whole['peak_gb']:.2f}; {whole['live']:,.0f}",
            reference=(
                f"the first {FEWER_JOBS:,} jobs: {week['peak_gb']:.2f}; {week['live']:,.0f} alive; "
                f"the empty fleet: {whole['empty_gb']:.2f}"
            ),
        ),
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]))) + "\n")
