"""(e) Short real jobs on the local engine alone: order, process, end, report. Wall-clock time."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figure
from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.settings import LocalSettings
from bursar.model.engine_report import EngineReport, TasksEnded
from bursar.model.event import AttemptStarted
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, TaskGroup
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef, StartOrder

JOBS = 1_000
SEQUENTIAL_JOBS = 100
SPEC = JobSpec(name="true", queue="research", groups=(TaskGroup(),))
PLACEMENT = Placement(
    pool="local",
    flavor="cpu/owned",
    tasks=(Task(group="main", node="node-0", count=1),),
    micro_usd_per_hour=0,
)


class StartLatency:
    """Milliseconds from the order of each job to its running process."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._ordered_at_ms: dict[str, float] = {}
        self.start_ms: list[float] = []
        self.ended = 0

    def order(self, job_id: str) -> None:
        self._ordered_at_ms[job_id] = time.time() * 1_000
        self._engine.start(
            StartOrder(
                ref=AttemptRef(job_id=job_id, attempt=1),
                placement=PLACEMENT,
                recipe=RunSpec(run="true"),
                spec=SPEC,
            )
        )

    def handle_reports(self, seconds: float) -> None:
        for report in self._engine.reports(seconds):
            self._handle(report)

    def _handle(self, report: EngineReport) -> None:
        if isinstance(report, AttemptStarted):
            self.start_ms.append(report.at_ms - self._ordered_at_ms[report.job_id])
        elif isinstance(report, TasksEnded):
            self.ended += 1
            self._engine.settled([AttemptRef(job_id=report.job_id, attempt=report.attempt)])

    def percentile_ms(self, percent: int) -> float:
        ordered = sorted(self.start_ms)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def figures() -> list[Figure]:
    """One job at a time for the start latency, then all jobs at once for the throughput."""
    folder = Path(tempfile.mkdtemp(prefix="bursar-bench-"))
    engine = LocalEngine(LocalSettings(state=folder, supervisor_linger_seconds=0.5))
    engine.open(())
    try:
        sequential = _run_sequentially(engine)
        per_second, concurrent = _run_concurrently(engine)
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    name = "(e) local engine, `true` in a shell, durable"
    return [
        Figure(
            scenario=name,
            what="jobs completed per second",
            measured=f"{per_second:,.0f}",
            reference="Slurm on a similar machine: 35-42",
        ),
        Figure(
            scenario=name,
            what="order to running process, one job at a time, p50 / p99, ms",
            measured=f"{sequential.percentile_ms(50):.0f} / {sequential.percentile_ms(99):.0f}",
            reference="target p50 under 20",
        ),
        Figure(
            scenario=name,
            what="order to running process, at full rate, p50 / p99, ms",
            measured=f"{concurrent.percentile_ms(50):.0f} / {concurrent.percentile_ms(99):.0f}",
            reference="Kubernetes SLO: p99 5,000",
        ),
    ]


def _run_sequentially(engine: LocalEngine) -> StartLatency:
    latency = StartLatency(engine)
    for number in range(SEQUENTIAL_JOBS):
        latency.order(f"j-sequential-{number}")
        while latency.ended <= number:
            latency.handle_reports(5.0)
    return latency


def _run_concurrently(engine: LocalEngine) -> tuple[float, StartLatency]:
    latency = StartLatency(engine)
    began = time.perf_counter()
    for number in range(JOBS):
        latency.order(f"j-concurrent-{number}")
        latency.handle_reports(0.0)
    while latency.ended < JOBS:
        latency.handle_reports(5.0)
    return JOBS / (time.perf_counter() - began), latency
