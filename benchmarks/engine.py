"""(e) Short real jobs through the local engine alone: order, process, end, report. Wall-clock time."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figure
from bursar.engines.local.engine import LocalEngine
from bursar.engines.local.settings import LocalSettings
from bursar.model.engine_report import EngineReport, TasksEnded, TasksStarted
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, TaskGroup
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef, StartOrder

JOBS = 1_000
ALONE = 100
SPEC = JobSpec(name="true", queue="research", groups=(TaskGroup(),))
PLACEMENT = Placement(
    pool="local",
    flavor="cpu/owned",
    tasks=(Task(group="main", node="node-0", count=1),),
    micro_usd_per_hour=0,
)


class Stopwatch:
    """When each job was ordered, and how long after that its process ran."""

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

    def listen(self, seconds: float) -> None:
        for report in self._engine.reports(seconds):
            self._take(report)

    def _take(self, report: EngineReport) -> None:
        if isinstance(report, TasksStarted):
            self.start_ms.append(report.at_ms - self._ordered_at_ms[report.job_id])
        elif isinstance(report, TasksEnded):
            self.ended += 1
            self._engine.settled([AttemptRef(job_id=report.job_id, attempt=report.attempt)])

    def percentile_ms(self, percent: int) -> float:
        ordered = sorted(self.start_ms)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def figures() -> list[Figure]:
    """One job at a time for the latency of a start; then as many as can be ordered."""
    folder = Path(tempfile.mkdtemp(prefix="bursar-bench-"))
    engine = LocalEngine(LocalSettings(state=folder, supervisor_linger_seconds=0.5))
    engine.open(())
    try:
        alone = _one_by_one(engine)
        per_second, crowd = _all_at_once(engine)
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    name = "(e) local engine, `true` in a shell, durable"
    return [
        Figure(
            scenario=name,
            what="jobs completed per second",
            measured=f"{per_second:,.0f}",
            reference="Slurm on such a machine: 35-42",
        ),
        Figure(
            scenario=name,
            what="order to running process alone, p50 / p99, ms",
            measured=f"{alone.percentile_ms(50):.0f} / {alone.percentile_ms(99):.0f}",
            reference="p50 under 20",
        ),
        Figure(
            scenario=name,
            what="the same at full rate, p50 / p99, ms",
            measured=f"{crowd.percentile_ms(50):.0f} / {crowd.percentile_ms(99):.0f}",
            reference="Kubernetes promises 5,000",
        ),
    ]


def _one_by_one(engine: LocalEngine) -> Stopwatch:
    watch = Stopwatch(engine)
    for number in range(ALONE):
        watch.order(f"j-alone-{number}")
        while watch.ended <= number:
            watch.listen(5.0)
    return watch


def _all_at_once(engine: LocalEngine) -> tuple[float, Stopwatch]:
    watch = Stopwatch(engine)
    began = time.perf_counter()
    for number in range(JOBS):
        watch.order(f"j-crowd-{number}")
        watch.listen(0.0)
    while watch.ended < JOBS:
        watch.listen(5.0)
    return JOBS / (time.perf_counter() - began), watch
