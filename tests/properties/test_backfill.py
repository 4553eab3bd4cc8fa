"""Backfill never delays a blocked job: the guarantee of EASY backfill."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from bursar.model.decision import Hold
from bursar.model.jobs.job import JobSpec, JobState, TaskGroup, WholeGpus
from bursar.model.reason import NoCapacity
from bursar.model.tenants.policy import (
    BackfillPolicy,
    OrderPolicy,
    OrderTerm,
    PlacementPolicy,
    Policies,
    SharePolicy,
)
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import MILLI, MINUTE_MS
from tests.properties.random_steps import fresh_state
from tests.properties.worlds import World, brief
from tests.support import SchedulerHarness, fleet_of, pool

FIRST_COME = OrderPolicy(share=SharePolicy.NONE, terms=(OrderTerm.SUBMITTED,))
NODE_CPUS = 24
"""Few enough to run out before the GPUs do."""
EASY = BackfillPolicy(reservations=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job, the time since the one before, and the percentage of its limit that it runs."""

    spec: JobSpec
    after_ms: int
    runs_percent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A world with one queue, first come first served, and the jobs submitted to it."""

    world: World
    arrivals: tuple[Arrival, ...]

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:
        printer.text(f"{brief(self.world)}\n" + "\n".join(brief(one) for one in self.arrivals))


@st.composite
def arrivals(draw: st.DrawFn, gpus_per_node: int, nodes: int) -> Arrival:
    gpus = draw(st.sampled_from([n for n in (8, 4, 3, 2, 1) if n <= gpus_per_node]))
    cpu_milli = draw(st.sampled_from((0, 1_000, 8_000)))
    per_node = min(gpus_per_node // gpus, NODE_CPUS * MILLI // max(1, cpu_milli))
    minutes = draw(st.sampled_from((1, 7, 30, 60, 100, 300)))
    group = TaskGroup(
        count=draw(st.integers(1, min(6, nodes * per_node))),
        gpu=WholeGpus(count=gpus),
        cpu_milli=cpu_milli,
    )
    spec = JobSpec(name="job", queue="q", groups=(group,), max_run_ms=minutes * MINUTE_MS)
    percent = draw(st.sampled_from((100, 100, 100, 60, 10)))
    after_ms = draw(st.sampled_from((0, 0, 1, MINUTE_MS, 11 * MINUTE_MS)))
    return Arrival(spec=spec, after_ms=after_ms, runs_percent=percent)


@st.composite
def days(draw: st.DrawFn) -> Day:
    nodes, gpus = draw(st.integers(1, 4)), draw(st.sampled_from((1, 2, 4, 8)))
    policies = Policies(
        order=FIRST_COME,
        backfill=EASY,
        placement=draw(st.sampled_from(tuple(PlacementPolicy))),
    )
    topology = draw(st.sampled_from(({}, {"rack": 2})))
    world = World(
        fleet=fleet_of(pool("p", nodes, gpus=gpus, cpu=NODE_CPUS), topology=topology),
        tenants=(Tenant(name="q", is_queue=True),),
        policies=policies,
    )
    found = draw(st.lists(arrivals(gpus, nodes), min_size=5, max_size=14))
    return Day(world=world, arrivals=tuple(found))


class DayRun:
    """Runs a day step by step; records the first planned and the actual start of each job."""

    def __init__(self, day: Day) -> None:
        self.harness = SchedulerHarness(fresh_state(day.world))
        self.first_planned: dict[str, int] = {}
        self.started: dict[str, int] = {}
        self.passed = 0
        self._ends: dict[str, int] = {}
        self._run_ms: dict[str, int] = {}
        self._arrivals: list[tuple[int, str, JobSpec]] = []
        at_ms = 0
        for number, one in enumerate(day.arrivals):
            at_ms += one.after_ms
            job_id = f"j{number:02d}"
            self._arrivals.append((at_ms, job_id, replace(one.spec, name=job_id)))
            assert one.spec.max_run_ms is not None
            self._run_ms[job_id] = max(1, one.spec.max_run_ms * one.runs_percent // 100)

    def run(self) -> DayRun:
        """Runs to the end of the last job."""
        while self._arrivals or self._ends:
            due_ms = [*self._ends.values(), *(at_ms for at_ms, _, _ in self._arrivals)]
            self.harness.now_ms = min(due_ms)
            self._report()
            self._decide()
        return self

    def _report(self) -> None:
        """Reports what is due by now: ends first, then submissions."""
        now_ms = self.harness.now_ms
        for job_id in sorted(job for job, end_ms in self._ends.items() if end_ms <= now_ms):
            del self._ends[job_id]
            self.harness.finish(job_id)
        while self._arrivals and self._arrivals[0][0] <= now_ms:
            self.harness.submit(self._arrivals.pop(0)[2])

    def _decide(self) -> None:
        now_ms = self.harness.now_ms
        waiting = self.harness.jobs_in(JobState.QUEUED)
        decisions = self.harness.cycle()
        for hold in (one for one in decisions if isinstance(one, Hold)):
            for reason in hold.reasons:
                planned = reason.expected_at_ms if isinstance(reason, NoCapacity) else None
                if planned is not None and hold.head == waiting[0]:
                    self.first_planned.setdefault(hold.head, planned)
        for job_id in self.harness.started_now():
            self.passed += any(other < job_id for other in self.harness.waiting())
            self.started[job_id] = now_ms
            self._ends[job_id] = now_ms + self._run_ms[job_id]
        self.harness.start_all()


@given(days())
def test_a_job_starts_no_later_than_planned_if_jobs_end_within_their_limits(day: Day) -> None:
    result = DayRun(day).run()
    late = {
        job_id: (planned_ms, result.started[job_id])
        for job_id, planned_ms in result.first_planned.items()
        if result.started[job_id] > planned_ms
    }
    assert not late
    assert len(result.started) == len(day.arrivals)
