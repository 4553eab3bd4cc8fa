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
from bursar.gc_tuning import rare_gc_in_a_run
from bursar.model.tenants.policy import Policies
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.named_policies import choose_policy
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation
from bursar.simulate.workload.generate import preset, stream
from bursar.simulate.workload.trace_scenario import TraceMapping, as_scenario
from tests.support import fleet_of, pool, queue, tenant

NODES, DAYS, JOBS = 5_000, 30, 1_000_000
FEWER_JOBS = 250_000
POLICY = "bursar"
FLAVOR = "a100-80gb/owned"
STEPS_BETWEEN_LOOKS = 1_000
UNMEASURED = "unmeasured"


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
    measures = RunMetrics(simulation.state)
    live = 0
    with rare_gc_in_a_run():
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


def unmeasured(jobs: int) -> dict[str, float]:
    """The run alone: what the scheduler and the simulator hold, without the numbers of a report."""
    simulation = Simulation(_scenario(jobs))
    with rare_gc_in_a_run():
        for _ in simulation.steps():
            pass
    return {"peak_gb": peak_memory_gb()}


def _in_a_process(jobs: int, *how: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.month", str(jobs), *how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def figures() -> list[Figure]:
    """The month, and the memory of its first week beside that of all of it."""
    week, whole = _in_a_process(FEWER_JOBS), _in_a_process(JOBS)
    first, twice = (_in_a_process(n * FEWER_JOBS, UNMEASURED) for n in (1, 2))
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
        Figure(
            scenario=name,
            what=f"peak memory, GB, without measures, of {2 * FEWER_JOBS:,} jobs",
            measured=f"{twice['peak_gb']:.3f}",
            reference=f"{first['peak_gb']:.3f} of {FEWER_JOBS:,}; measures keep 32 bytes of a finished job",
        ),
    ]


if __name__ == "__main__":
    jobs, how = int(sys.argv[1]), sys.argv[2:]
    found = unmeasured(jobs) if how == [UNMEASURED] else run(jobs)
    sys.stdout.write(json.dumps(found) + "\n")
