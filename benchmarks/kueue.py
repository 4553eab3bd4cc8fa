"""(b) Kueue's published scalability workloads, replayed in virtual time with the full core.

The generator is the published one: in every queue three classes of jobs arrive at fixed intervals and run
for a fixed time; quota may be borrowed and is reclaimed by preemption. Kueue's figure includes the writes of
each admission to the API server; ours measures decisions only, without writes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.figure import Figure, Stopwatch
from bursar.model.event import AttemptAssigned, JobSubmitted
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import OrderPolicy, Policies, PreemptionLimits, SharePolicy
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, job, pool, queue, quota, tenant

KUEUE_ADMISSIONS_PER_SECOND = 43


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """A class of jobs that arrives in every queue."""

    name: str
    count: int
    cpu: int
    run_ms: int
    priority: int
    interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A published configuration and its published results."""

    name: str
    cohorts: int
    queues: int
    classes: tuple[JobClass, ...]
    seconds: float
    waits: str


BASELINE = Workload(
    name="(b) Kueue baseline, 15,000 jobs in 5 x 6 queues",
    cohorts=5,
    queues=6,
    classes=(
        JobClass(name="small", count=350, cpu=1, run_ms=200, priority=50, interval_ms=100),
        JobClass(name="medium", count=100, cpu=5, run_ms=500, priority=100, interval_ms=500),
        JobClass(name="large", count=50, cpu=20, run_ms=1_000, priority=200, interval_ms=1_200),
    ),
    seconds=351.1,
    waits="small 215.5, medium 76.8, large 16.5",
)
LARGE = Workload(
    name="(b) Kueue large-scale, 50,000 jobs in 10 x 100 queues",
    cohorts=10,
    queues=100,
    classes=(
        JobClass(name="small", count=35, cpu=1, run_ms=150, priority=50, interval_ms=60),
        JobClass(name="medium", count=11, cpu=5, run_ms=350, priority=100, interval_ms=300),
        JobClass(name="large", count=4, cpu=20, run_ms=700, priority=200, interval_ms=700),
    ),
    seconds=1_179.4,
    waits="small 700.4, medium 256.4, large 105.6",
)

POLICIES = Policies(
    order=OrderPolicy(share=SharePolicy.NONE),
    preemption=PreemptionLimits(minimum_run_ms=0, preemptions_per_job=1_000),
)


def _tenants(workload: Workload) -> tuple[Tenant, ...]:
    flavor = ("cpu/owned", "cpu")
    tenants = [tenant(f"cohort-{c:02d}") for c in range(workload.cohorts)]
    tenants += [
        queue(f"queue-{c:02d}-{q:03d}", f"cohort-{c:02d}", {flavor: quota(20, borrow=100)})
        for c in range(workload.cohorts)
        for q in range(workload.queues)
    ]
    return tuple(tenants)


def _spec(one: JobClass, queue_name: str) -> JobSpec:
    hours = one.run_ms / HOUR_MS
    return job(one.name, gpus=0, cpu=one.cpu, queue=queue_name, hours=hours)


def _submissions(workload: Workload) -> Iterator[JobSubmitted]:
    """Submissions of all queues in order of time; each class has its own interval."""
    streams = [
        _stream(one, f"queue-{c:02d}-{q:03d}")
        for c in range(workload.cohorts)
        for q in range(workload.queues)
        for one in workload.classes
    ]
    return heapq.merge(*streams, key=lambda event: (event.at_ms, event.job_id))


def _stream(one: JobClass, queue_name: str) -> Iterator[JobSubmitted]:
    spec = _spec(one, queue_name)
    for number in range(one.count):
        yield JobSubmitted(
            at_ms=(number + 1) * one.interval_ms,
            job_id=f"{queue_name}-{one.name}-{number:03d}",
            spec=spec,
            priority=one.priority,
        )


def replay(workload: Workload) -> list[Figure]:
    """Measure admissions per CPU-second and the waits in virtual time."""
    nodes = workload.cohorts * workload.queues
    scenario = Scenario(
        fleet=fleet_of(pool("cpu", nodes, gpus=0, cpu=64, memory_gib=64)),
        tenants=_tenants(workload),
        policies=POLICIES,
        events=_submissions(workload),
        delays=Delays(start_ms=0, stop_ms=0),
    )
    admitted_at: dict[str, int] = {}
    created_at: dict[str, int] = {}
    watch = Stopwatch()
    admissions = last_ms = 0
    with watch.lap():
        for step in Simulation(scenario).steps():
            last_ms = step.now_ms
            for event in (*step.events, *step.committed):
                if isinstance(event, AttemptAssigned):
                    admissions += 1
                    admitted_at[event.job_id] = event.at_ms
                elif isinstance(event, JobSubmitted):
                    created_at[event.job_id] = event.at_ms
    return _figures(workload, admissions / watch.total, last_ms, _waits(created_at, admitted_at))


def _waits(created_at: dict[str, int], admitted_at: dict[str, int]) -> str:
    """Mean seconds from creation to the last admission, by class."""
    by_class: dict[str, list[int]] = {}
    for job_id, at_ms in admitted_at.items():
        by_class.setdefault(job_id.split("-")[3], []).append(at_ms - created_at[job_id])
    return ", ".join(
        f"{name} {sum(by_class[name]) / len(by_class[name]) / 1_000:.1f}"
        for name in ("small", "medium", "large")
    )


def _figures(workload: Workload, rate: float, last_ms: int, waits: str) -> list[Figure]:
    ratio = rate / KUEUE_ADMISSIONS_PER_SECOND
    return [
        Figure(
            scenario=workload.name,
            what="admissions per CPU-second (no writes)",
            measured=f"{rate:,.0f} ({ratio:,.0f} x Kueue)",
            reference="Kueue 43 with writes; target 100 x",
        ),
        Figure(
            scenario=workload.name,
            what="virtual seconds until all jobs ended",
            measured=f"{last_ms / 1_000:.1f}",
            reference=f"Kueue {workload.seconds:,.1f} (wall)",
        ),
        Figure(
            scenario=workload.name,
            what="mean seconds to admission",
            measured=waits,
            reference=f"Kueue: {workload.waits}",
        ),
    ]


def figures() -> list[Figure]:
    return [*replay(BASELINE), *replay(LARGE)]
