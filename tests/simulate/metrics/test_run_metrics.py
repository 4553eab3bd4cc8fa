"""Every metric on runs of a few jobs, compared with numbers calculated by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

import pytest

from bursar.model.event import (
    Event,
    JobCancelled,
    NodeAdded,
    NodeDrained,
    NodeLost,
    PriceChanged,
)
from bursar.model.fleet.fleet import Market, Node
from bursar.model.jobs.job import CheckpointPolicy, Slo
from bursar.model.units import HOUR_MS, MILLI, MINUTE_MS, SECOND_MS
from bursar.simulate.metrics import RunMetrics, Summary
from bursar.simulate.metrics.summary import GPU_HOUR
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.simulate.metrics.small_runs import (
    ONE_QUEUE,
    TWO_TEAMS,
    measured,
    one_node,
    submitted,
)
from tests.support import fleet_of, job, mig_job, mps_job, pool

USD = 1_000_000
SAVES = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=6 * MINUTE_MS)

one_after_another = submitted((0, job("a", 8, hours=1)), (0, job("b", 8, hours=1)))
half_a_node = submitted((0, job("a", 4, hours=2)))
preempted = submitted(
    (0, job("borrower", 8, queue="vision", hours=2, checkpoint=SAVES)),
    (75 * MINUTE_MS, job("owner", 4, queue="product", hours=1)),
)

Check = Callable[[Summary], object]

ONE_QUEUE_RUNS: dict[str, tuple[list[Event], Check, object]] = {
    "the second of two jobs that need the whole node waits for the first": (
        one_after_another,
        lambda s: (s.times.wait_ms.p50, s.times.wait_ms.p99, s.times.wait_ms.mean),
        (0, HOUR_MS, HOUR_MS / 2),
    ),
    "completion time is from submission to the end": (
        one_after_another,
        lambda s: (s.times.jct_ms.p50, s.times.jct_ms.p90, s.times.jct_ms.mean),
        (HOUR_MS, 2 * HOUR_MS, 1.5 * HOUR_MS),
    ),
    "slowdown is completion time over run time": (
        one_after_another,
        lambda s: (s.times.slowdown_milli.p50, s.times.slowdown_milli.p99),
        (MILLI, 2 * MILLI),
    ),
    "a run shorter than ten seconds counts as ten in the slowdown": (
        submitted((0, job("a", 8, hours=15 / 3600)), (0, job("b", 8, hours=1 / 3600))),
        lambda s: s.times.slowdown_milli.largest,
        1600,
    ),
    "a full node has no idle GPUs": (
        one_after_another,
        lambda s: (s.use.allocated, s.use.useful, s.cost.idle_micro_usd, s.gpu_time.idle),
        (1.0, 1.0, 0, 0),
    ),
    "half a node is half of the GPU time and half of the dollars": (
        half_a_node,
        lambda s: (s.gpu_time.allocated, s.gpu_time.idle, *s.cost.allocated.values()),
        (8 * GPU_HOUR, 8 * GPU_HOUR, 8 * USD),
    ),
    "free GPUs on a node with a job are fragmented": (
        half_a_node,
        lambda s: s.use.fragmentation,
        1.0,
    ),
    "free GPUs count as unallocated only while jobs wait": (
        submitted((0, job("a", 4, hours=1)), (0, job("b", 8, hours=1))),
        lambda s: (s.use.unallocated_gpus_while_waiting, s.use.waiting_jobs),
        (2.0, 0.5),
    ),
    "the run lasts from the first submission to the last end": (
        submitted((HOUR_MS, job("a", 8, hours=1)), (4 * HOUR_MS, job("b", 8, hours=1))),
        lambda s: (s.began_ms, s.makespan_ms, s.use.allocated),
        (HOUR_MS, 4 * HOUR_MS, 0.5),
    ),
    "a job that can never start is unfinished and has no wait": (
        submitted((0, job("a", 8, hours=1)), (0, job("huge", 16, hours=1))),
        lambda s: (s.outcomes.unfinished, s.outcomes.succeeded, s.times.wait_ms.count),
        (1, 1, 1),
    ),
    "a cancelled job is counted and not measured": (
        [*one_after_another, JobCancelled(at_ms=MINUTE_MS, job_id="b")],
        lambda s: (s.outcomes.cancelled, s.times.jct_ms.count, s.use.waiting_jobs),
        (1, 1, 1 / 60),
    ),
    "work of a cancelled job is not lost": (
        [*submitted((0, job("a", 8, hours=4))), JobCancelled(at_ms=HOUR_MS, job_id="a")],
        lambda s: (s.gpu_time.allocated, s.gpu_time.useful, s.losses.lost_micro_usd),
        (8 * GPU_HOUR, 8 * GPU_HOUR, 0),
    ),
    "a job stopped at its limit has failed, and its work is not lost": (
        submitted((0, job("a", 8, hours=4, max_hours=1))),
        lambda s: (s.outcomes.failed, s.losses.lost_gpu_milli_ms, s.makespan_ms),
        (1, 0, HOUR_MS),
    ),
    "a dependent job waits from the end of its dependencies, and completes from submission": (
        submitted((0, job("a", 8, hours=1)), (0, job("b", 8, hours=1, depends_on=("a",)))),
        lambda s: (s.times.wait_ms.largest, s.times.jct_ms.largest, s.times.slowdown_milli.largest),
        (0, 2 * HOUR_MS, MILLI),
    ),
    "a deadline is met by the end, not by the start": (
        submitted(
            (0, job("a", 4, hours=1, deadline_ms=HOUR_MS)),
            (0, job("b", 4, hours=1, deadline_ms=HOUR_MS - 1)),
            (0, job("never", 16, hours=1, deadline_ms=HOUR_MS - 1)),
            (0, job("later", 16, hours=1, deadline_ms=9 * HOUR_MS)),
        ),
        lambda s: (s.promises.deadlines_kept, s.promises.deadlines_missed),
        (1, 2),
    ),
    "an SLO is met when its GPU time is reached in time, even if the job continues": (
        submitted(
            (0, job("a", 4, hours=3, slo=Slo(gpu_ms=4 * HOUR_MS, within_ms=HOUR_MS))),
            (0, job("b", 4, hours=3, slo=Slo(gpu_ms=4 * HOUR_MS, within_ms=HOUR_MS - 1))),
        ),
        lambda s: (s.promises.slos_kept, s.promises.slos_missed),
        (1, 1),
    ),
    "jobs are grouped by size": (
        submitted(
            (0, job("a", 1, hours=1)),
            (0, job("b", 4, hours=1)),
            (HOUR_MS, mps_job("c", 25, hours=1)),
            (HOUR_MS, mig_job("d", "1g.10gb", hours=1)),
        ),
        lambda s: {size: times.jct_ms.count for size, times in s.by_size.items()},
        {"part of a GPU": 2, "1 GPU": 1, "2-4 GPUs": 1},
    ),
    "slices of a GPU never count as more than the GPU": (
        submitted((0, mig_job("a", "4g.40gb", hours=1)), (0, mig_job("b", "3g.40gb", hours=1))),
        lambda s: s.gpu_time.allocated,
        GPU_HOUR,
    ),
    "a quarter of a GPU is a quarter of its GPU time": (
        submitted((0, mps_job("a", 25, hours=4))),
        lambda s: (s.gpu_time.allocated, s.use.fragmentation),
        (GPU_HOUR, 1.0),
    ),
    "a new price is paid from then on, and a running attempt keeps its price": (
        [
            *submitted((0, job("a", 4, hours=2))),
            PriceChanged(at_ms=HOUR_MS, pool="a100", node_micro_usd_per_hour=16 * USD),
        ],
        lambda s: (
            s.cost.capacity_micro_usd,
            sum(s.cost.allocated.values()),
            s.cost.idle_micro_usd,
        ),
        (24 * USD, 8 * USD, 16 * USD),
    ),
    "a drained node has no free GPUs and still costs": (
        [*half_a_node, NodeDrained(at_ms=HOUR_MS, node="a100-0001")],
        lambda s: (s.use.fragmentation, s.gpu_time.idle, s.cost.idle_micro_usd),
        (1.0, 8 * GPU_HOUR, 8 * USD),
    ),
    "time before the first job and after the last is not counted": (
        [
            NodeAdded(at_ms=0, node=Node(id="early", pool="a100")),
            NodeLost(at_ms=MINUTE_MS, node="early"),
            *submitted((HOUR_MS, job("a", 8, hours=1))),
            NodeAdded(at_ms=3 * HOUR_MS, node=Node(id="late", pool="a100")),
            NodeLost(at_ms=9 * HOUR_MS, node="late"),
        ],
        lambda s: (s.makespan_ms, s.gpu_time.capacity, s.cost.capacity_micro_usd),
        (HOUR_MS, 8 * GPU_HOUR, 8 * USD),
    ),
}


@pytest.mark.parametrize("sentence", ONE_QUEUE_RUNS)
def test_metric(sentence: str) -> None:
    events, look, expected = ONE_QUEUE_RUNS[sentence]
    assert look(measured(events).summary()) == pytest.approx(expected)


TWO_TEAM_RUNS: dict[str, tuple[Check, object]] = {
    "a preempted job loses its unsaved work": (
        lambda s: (s.losses.preemptions, s.losses.lost_gpu_milli_ms, s.losses.lost_micro_usd),
        (1, 2 * GPU_HOUR, 2 * USD),
    ),
    "restart time is separate from lost time": (
        lambda s: (s.losses.restart_gpu_milli_ms, s.losses.restart_micro_usd),
        (8 * GPU_HOUR // 10, 8 * USD // 10),
    ),
    "useful time is held time less lost and restart time": (
        lambda s: s.gpu_time.useful,
        (8 * 2 + 4) * GPU_HOUR,
    ),
    "its wait is the sum over its attempts": (
        lambda s: s.times.wait_ms.largest,
        HOUR_MS,
    ),
    "a team is a child of the root tenant": (
        lambda s: [(t.team, t.outcomes.succeeded, t.preemptions) for t in s.teams],
        [("product", 1, 0), ("science", 1, 1)],
    ),
    "a team pays for what it held": (
        lambda s: [t.cost_micro_usd for t in s.teams],
        [4 * USD, round(8 * 2.35 * USD)],
    ),
}


@pytest.mark.parametrize("sentence", TWO_TEAM_RUNS)
def test_metric_of_a_preempted_borrower(sentence: str) -> None:
    look, expected = TWO_TEAM_RUNS[sentence]
    assert look(measured(preempted, tenants=TWO_TEAMS).summary()) == expected


def test_work_of_an_attempt_lost_during_its_restart_is_counted_once() -> None:
    events = [
        *submitted((0, job("a", 8, hours=2, checkpoint=SAVES))),
        NodeLost(at_ms=45 * MINUTE_MS, node="a100-0001"),
        NodeAdded(at_ms=60 * MINUTE_MS, node=Node(id="x", pool="a100")),
        NodeLost(at_ms=63 * MINUTE_MS, node="x"),
        NodeAdded(at_ms=70 * MINUTE_MS, node=Node(id="y", pool="a100")),
    ]
    summary = measured(events).summary()
    held, lost = summary.gpu_time.allocated, summary.gpu_time.lost
    assert summary.losses.attempts_lost_with_node == 2
    assert lost == 8 * 15 * MINUTE_MS * MILLI
    assert summary.gpu_time.restart == 8 * (3 + 6) * MINUTE_MS * MILLI
    assert (
        summary.gpu_time.useful
        == 8 * 2 * HOUR_MS * MILLI
        == held - lost - 8 * 9 * MINUTE_MS * MILLI
    )


def test_engine_delays_count_as_held_and_not_as_waiting() -> None:
    delays = Delays(start_ms=20 * SECOND_MS)
    summary = measured(submitted((0, job("a", 8, hours=1))), delays=delays).summary()
    assert summary.times.jct_ms.largest == HOUR_MS + 20 * SECOND_MS
    assert summary.times.wait_ms.largest == 0


def test_costs_are_separate_for_each_purchase_option() -> None:
    fleet = fleet_of(
        pool("own", nodes=1, usd_per_node_hour=8.0),
        pool("spot", nodes=1, usd_per_node_hour=4.0, market=Market.SPOT),
    )
    spot_only = job("a", 8, hours=1, markets=(Market.SPOT,))
    cost = measured(submitted((0, spot_only)), fleet=fleet).summary().cost
    assert cost.allocated == {"owned": 0, "spot": 4 * USD}
    assert cost.idle == {"owned": 8 * USD, "spot": 0}


def test_a_summary_during_a_run_counts_running_jobs() -> None:
    events = submitted((0, job("a", 4, hours=4)), (HOUR_MS, job("b", 8, hours=1)))
    scenario = Scenario(
        fleet=one_node(), tenants=ONE_QUEUE, events=events, delays=Delays(start_ms=0)
    )
    simulation = Simulation(scenario)
    measures = RunMetrics(simulation.state)
    for step in simulation.steps():
        measures.note(step)
        if step.now_ms == HOUR_MS:
            break
    summary = measures.summary()
    assert summary.outcomes.unfinished == 2
    assert summary.gpu_time.allocated == 4 * GPU_HOUR
    assert summary.teams[0].cost_micro_usd == 4 * USD
    assert len({bar.gpu for bar in measures.series().gantt.bars}) == 4


def test_a_run_without_jobs_has_zeros_and_can_be_serialized() -> None:
    measures = measured([])
    summary = measures.summary()
    assert (summary.makespan_ms, summary.gpu_time.capacity, summary.teams) == (0, 0, ())
    assert summary.fairness.jain == 1.0
    json.dumps(asdict(measures.series()))


def test_a_summary_is_plain_json() -> None:
    summary = measured(preempted, tenants=TWO_TEAMS).summary("a run")
    read = json.loads(json.dumps(summary.as_json(), allow_nan=False))
    assert read["name"] == "a run"
    assert read["times"]["jct_ms"]["count"] == 2
    assert read["cost"]["capacity"]["owned"] == summary.cost.capacity_micro_usd
