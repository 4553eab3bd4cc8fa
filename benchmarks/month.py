"""(f) Time and memory to simulate a month of a million generated jobs on 5,000 nodes.

Each run has its own process, because the peak memory is that of the whole process.
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
from bursar.simulate.workload.generate.draw import stream
from bursar.simulate.workload.generate.presets import preset
from bursar.simulate.workload.trace_scenario import TraceMapping, as_scenario
from tests.support import fleet_of, pool, queue, tenant

NODES, DAYS, JOBS = 5_000, 30, 1_000_000
FEWER_JOBS = 250_000
POLICY = "bursar"
FLAVOR = "a100-80gb/owned"
STEPS_PER_SAMPLE = 1_000
WITHOUT_METRICS = "without-metrics"


def _scenario(jobs: int) -> Scenario:
    """Jobs like those of Philly; each team has a queue and an equal quota."""
    workload = preset("philly-like", jobs=jobs, jobs_per_day=JOBS / DAYS)
    generated = stream(workload, seed=1)
    quota_gpus = NODES * 8 // len(generated.teams)
    queues = tuple(queue(team, "org", {FLAVOR: quota_gpus}) for team in generated.teams)
    choice = choose_policy(POLICY, Policies())
    run = as_scenario(
        generated,
        fleet_of(pool("a100", NODES)),
        (tenant("org"), *queues),
        choice.policies,
        TraceMapping(any_model=True),
    )
    return replace(run.scenario, tenants=choice.tenants(run.scenario.tenants))


def run(jobs: int) -> dict[str, float]:
    """Simulate the jobs with all metrics; the results are in seconds, GB and jobs."""
    began, began_cpu = time.perf_counter(), time.process_time()
    simulation = Simulation(_scenario(jobs))
    empty_gb = peak_memory_gb()
    metrics = RunMetrics(simulation.state)
    live = 0
    with rare_gc_in_a_run():
        for number, step in enumerate(simulation.steps()):
            metrics.note(step)
            if number % STEPS_PER_SAMPLE == 0:
                live = max(live, len(simulation.state.jobs))
        summary = metrics.summary(POLICY)
    return {
        "wall_seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - began_cpu,
        "empty_gb": empty_gb,
        "peak_gb": peak_memory_gb(),
        "live": live,
        "ended": summary.outcomes.succeeded,
        "allocated": summary.use.allocated,
    }


def run_without_metrics(jobs: int) -> dict[str, float]:
    """Simulate the jobs without metrics: the memory of the scheduler and the simulator."""
    simulation = Simulation(_scenario(jobs))
    with rare_gc_in_a_run():
        for _ in simulation.steps():
            pass
    return {"peak_gb": peak_memory_gb()}


def _run_in_process(jobs: int, *mode: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.month", str(jobs), *mode]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    results: dict[str, float] = json.loads(process.stdout)
    return results


def figures() -> list[Figure]:
    """The whole month, and its memory compared with that of the first jobs."""
    quarter, whole = _run_in_process(FEWER_JOBS), _run_in_process(JOBS)
    first, twice = (_run_in_process(n * FEWER_JOBS, WITHOUT_METRICS) for n in (1, 2))
    name = (
        f"(f) {whole['ended']:,.0f} jobs in {DAYS} days on {NODES:,} nodes, {POLICY}, all metrics"
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
            what="jobs per CPU-second, including generation and metrics",
            measured=f"{whole['ended'] / whole['cpu_seconds']:,.0f}",
            reference="FGD's Go simulator: 2.7 pods per second and 4.2 GB",
        ),
        Figure(
            scenario=name,
            what="peak memory, GB; most unfinished jobs",
            measured=f"{whole['peak_gb']:.2f}; {whole['live']:,.0f}",
            reference=(
                f"first {FEWER_JOBS:,} jobs: {quarter['peak_gb']:.2f}; {quarter['live']:,.0f} unfinished; "
                f"empty fleet: {whole['empty_gb']:.2f}"
            ),
        ),
        Figure(
            scenario=name,
            what=f"peak memory, GB, without metrics, {2 * FEWER_JOBS:,} jobs",
            measured=f"{twice['peak_gb']:.3f}",
            reference=f"{FEWER_JOBS:,} jobs: {first['peak_gb']:.3f}; metrics store 32 bytes per finished job",
        ),
    ]


if __name__ == "__main__":
    jobs, mode = int(sys.argv[1]), sys.argv[2:]
    results = run_without_metrics(jobs) if mode == [WITHOUT_METRICS] else run(jobs)
    sys.stdout.write(json.dumps(results) + "\n")
