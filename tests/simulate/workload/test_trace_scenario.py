"""A trace on a fleet: every row becomes a job or a reported problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bursar.core.check import require_valid
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec, JobState, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS, MINUTE_MS
from bursar.simulate.named_policies import RunTimeSource
from bursar.simulate.simulation import Simulation
from bursar.simulate.workload.trace import Trace, TraceJob
from bursar.simulate.workload.trace_scenario import (
    JobStream,
    TraceMapping,
    TraceRun,
    as_scenario,
)
from studies.formats.openb_nodes import NodeList, TraceNode
from studies.fragmentation.trace_fleet import fleet_of_nodes
from tests.support import fleet_of, pool, queue, tenant

FLEET = fleet_of(pool("a100", nodes=4), pool("t4", nodes=2, gpus=4, model="t4"))
TENANTS = (tenant("acme"), queue("vision", "acme", {"a100-80gb/owned": 16}))
ROW = TraceJob(job_id="1", submitted_ms=0, run_ms=HOUR_MS, team="vision", gpus=1)


def run_of(*jobs: TraceJob, mapping: TraceMapping | None = None) -> TraceRun:
    trace = Trace(source="days.csv", jobs=jobs)
    return as_scenario(trace, FLEET, TENANTS, Policies(), mapping)


def spec_of(job: TraceJob, mapping: TraceMapping | None = None) -> JobSpec:
    (event,) = run_of(job, mapping=mapping).scenario.events
    assert isinstance(event, JobSubmitted)
    return event.spec


@pytest.mark.parametrize(
    ("job", "groups"),
    [
        (replace(ROW, gpus=8), (TaskGroup(gpu=WholeGpus(count=8)),)),
        (replace(ROW, gpus=16), (TaskGroup(count=2, gpu=WholeGpus(count=8)),)),
        (
            replace(ROW, gpus=12, cpu_milli=12_000, memory_mib=1_200),
            (
                TaskGroup(gpu=WholeGpus(count=8), cpu_milli=8_000, memory_mib=800),
                TaskGroup(name="rest", gpu=WholeGpus(count=4), cpu_milli=4_000, memory_mib=400),
            ),
        ),
        (
            replace(ROW, gpus=8, gpu_models=("Tesla T4",)),
            (TaskGroup(count=2, gpu=WholeGpus(count=4, models=("t4-16gb",))),),
        ),
        (replace(ROW, gpus=2, tasks=3), (TaskGroup(count=3, gpu=WholeGpus(count=2)),)),
        (replace(ROW, gpus=0, gpu_milli=250), (TaskGroup(gpu=MpsShare(percent=25)),)),
        (replace(ROW, gpus=0, gpu_milli=251), (TaskGroup(gpu=MpsShare(percent=26)),)),
        (replace(ROW, gpus=0, gpu_milli=1000), (TaskGroup(gpu=WholeGpus(count=1)),)),
        (replace(ROW, gpus=0, cpu_milli=500), (TaskGroup(cpu_milli=500),)),
    ],
)
def test_the_request_of_a_row(job: TraceJob, groups: tuple[TaskGroup, ...]) -> None:
    assert spec_of(job).groups == groups


def test_a_masked_gpu_type_runs_on_a_fleet_that_has_it() -> None:
    machine = TraceNode(
        node_id="n", cpu_milli=9_000, memory_mib=9, gpus=2, gpu_model="anonymous-g2"
    )
    other = replace(machine, node_id="o", gpu_model="t4-16gb")
    fleet = fleet_of_nodes(NodeList(source="nodes.csv", nodes=(machine, other)))
    assert [pool.gpu_model.name for pool in fleet.pools if pool.gpu_model is not None] == [
        "anonymous-g2",
        "t4-16gb",
    ]
    job = replace(ROW, gpu_models=("anonymous-g2", "t4"))
    run = as_scenario(Trace(source="days.csv", jobs=(job,)), fleet, (), Policies())
    (event,) = run.scenario.events
    assert isinstance(event, JobSubmitted)
    request = event.spec.groups[0].gpu
    assert isinstance(request, WholeGpus) and request.models == ("anonymous-g2", "t4-16gb")


def test_gpu_fractions_can_become_slices() -> None:
    mapping = TraceMapping(parts_are_slices=True)
    seventh = replace(ROW, gpus=0, gpu_milli=150)
    run = run_of(seventh, replace(seventh, job_id="2", gpu_milli=280), mapping=mapping)
    requests = [e.spec.groups[0].gpu for e in run.scenario.events if isinstance(e, JobSubmitted)]
    assert requests == [MigSlice(profile="1g.10gb"), MigSlice(profile="2g.20gb")]
    assert run.remarks.notes == ()


def test_rounded_gpu_fractions_are_counted() -> None:
    odd = replace(ROW, gpus=0, gpu_milli=333)
    notes = run_of(odd, replace(odd, job_id="2")).remarks.notes
    assert notes == ("2 jobs: ask for a part of a GPU that is no whole percent, rounded up",)


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (replace(ROW, gpus=64), "groups do not fit on any pool at once"),
        (replace(ROW, gpu_models=("z9",)), "'z9' is not a known GPU model"),
        (replace(ROW, gpu_models=("h100",)), "groups cannot run on any pool"),
        (replace(ROW, gpu_models=("anonymous-g2",)), "groups cannot run on any pool"),
        (replace(ROW, memory_mib=2**40), "groups cannot run on any pool"),
        (replace(ROW, submitted_ms=-5), "was submitted 5 ms before the trace begins"),
        (replace(ROW, run_ms=-5), "ran for -5 ms"),
        (replace(ROW, tasks=0), "groups[0].count is 0"),
    ],
)
def test_a_job_that_can_never_run_is_left_out(job: TraceJob, problem: str) -> None:
    run = run_of(job, replace(ROW, job_id="good"), replace(job, job_id="again"))
    assert [event.job_id for event in run.scenario.events if hasattr(event, "spec")] == ["good"]
    assert sorted(one.job_id for one in run.remarks.left_out) == ["1", "again"]
    for one in run.remarks.left_out:
        assert str(one).startswith(f"days.csv: job {one.job_id}: {problem}")


def test_a_repeated_job_id_is_left_out() -> None:
    run = run_of(ROW, ROW)
    assert len(tuple(run.scenario.events)) == 1
    assert [str(one) for one in run.remarks.left_out] == [
        "days.csv: job 1: its id stands in the trace before"
    ]


def test_each_unknown_team_gets_a_queue_below_the_root() -> None:
    run = run_of(
        ROW, replace(ROW, job_id="2", team="speech"), replace(ROW, job_id="3", team="acme")
    )
    assert run.scenario.tenants[2:] == (
        Tenant(name="acme-jobs", parent="acme", is_queue=True),
        Tenant(name="speech", parent="acme", is_queue=True),
    )
    assert queues_of(run) == ["vision", "speech", "acme-jobs"]


def test_unknown_teams_can_share_the_default_queue() -> None:
    mapping = TraceMapping(teams_share_a_queue=True)
    rows = [replace(ROW, job_id=team, team=team) for team in ("a", "b", "vision")]
    run = run_of(*rows, mapping=mapping)
    assert queues_of(run) == ["default", "default", "vision"]


def queues_of(run: TraceRun) -> Sequence[str]:
    return [e.spec.queue for e in run.scenario.events if isinstance(e, JobSubmitted)]


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (RunTimeSource.WRITTEN, (2 * HOUR_MS, None)),
        (RunTimeSource.ORACLE, (HOUR_MS, None)),
        (RunTimeSource.NONE, (None, None)),
    ],
)
def test_run_time_estimates_given_to_the_scheduler(
    estimate: RunTimeSource, expected: tuple[int | None, int | None]
) -> None:
    spec = spec_of(replace(ROW, expected_ms=2 * HOUR_MS), TraceMapping(estimate=estimate))
    assert (spec.expected_run_ms, spec.max_run_ms) == expected


def test_a_priority_gets_the_class_of_its_value() -> None:
    run = run_of(replace(ROW, priority=100), replace(ROW, job_id="2", priority=7))
    classes = [
        (e.priority, e.spec.priority_class) for e in run.scenario.events if hasattr(e, "spec")
    ]
    assert classes == [(100, "high"), (7, "normal")]


def test_a_passed_deadline_is_dropped_and_counted() -> None:
    late = replace(ROW, submitted_ms=MINUTE_MS, deadline_ms=MINUTE_MS)
    assert spec_of(late).deadline_ms is None
    assert "had passed their deadline" in run_of(late).remarks.notes[0]
    assert spec_of(replace(late, deadline_ms=HOUR_MS)).deadline_ms == HOUR_MS


def test_a_stream_runs_like_the_trace_without_storing_jobs() -> None:
    jobs = tuple(
        replace(ROW, job_id=str(n), submitted_ms=n * MINUTE_MS, run_ms=(n % 7 + 1) * HOUR_MS)
        for n in range(100)
    )
    bad = replace(ROW, job_id="bad", submitted_ms=101 * MINUTE_MS, gpus=999)
    stream = JobStream(source="s", teams=("vision",), draw=lambda: iter((*jobs, bad)))
    streamed = as_scenario(stream, FLEET, TENANTS, Policies())
    whole = run_of(*jobs, bad)
    ends = []
    for run in (streamed, whole):
        simulation = Simulation(run.scenario, check=require_valid)
        ends.append([step.now_ms for step in simulation.steps()])
        assert set(simulation.state.finished.values()) == {JobState.SUCCEEDED}
        assert len(simulation.state.finished) == 100
        assert [one.job_id for one in run.remarks.left_out] == ["bad"]
    assert ends[0] == ends[1]
    assert len(streamed.scenario.run_ms) == 0
