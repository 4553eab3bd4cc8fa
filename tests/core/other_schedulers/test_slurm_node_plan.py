"""The plan of free nodes over time that backfill works on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.core.other_schedulers.slurm_node_plan import (
    NodePlan,
    NodeRequest,
    PlannedRun,
    plan_in_order,
)

MINUTE_MS = 60_000
DAY_MS = 1440 * MINUTE_MS


def plan_of(nodes: int, **changed: int) -> NodePlan:
    settings = {"begins_ms": 0, "resolution_ms": MINUTE_MS, "window_ms": DAY_MS} | changed
    return NodePlan(nodes, settings["begins_ms"], settings["resolution_ms"], settings["window_ms"])


def requests(*shapes: tuple[int, int]) -> list[NodeRequest]:
    return [
        NodeRequest(job=f"j{number:04d}", nodes=nodes, duration_ms=minutes * MINUTE_MS)
        for number, (nodes, minutes) in enumerate(shapes)
    ]


# nodes, jobs as (nodes, minutes) in order of priority -> the minute each starts, None for never
PLANS: dict[str, tuple[int, list[tuple[int, int]], list[int | None]]] = {
    "a job starts now when there is room": (4, [(4, 10)], [0]),
    "a small job passes a blocked one if it leaves in time": (
        32,
        [(1, 10), (32, 10), (31, 5)],
        [0, 10, 0],
    ),
    "a small job that would stay too long goes behind the blocked one": (
        8,
        [(6, 30), (8, 10), (2, 31)],
        [0, 30, 40],
    ),
    "identical jobs follow each other": (4, [(2, 10)] * 5, [0, 0, 10, 10, 20]),
    "a job larger than the cluster is never planned and delays no other job": (
        4,
        [(5, 10), (4, 10)],
        [None, 0],
    ),
    "a job that cannot start within the window is not planned": (
        1,
        [(1, 1440), (1, 10), (1, 10)],
        [0, 1440, None],
    ),
}


@pytest.mark.parametrize(("nodes", "shapes", "minutes"), PLANS.values(), ids=PLANS.keys())
def test_plan(nodes: int, shapes: list[tuple[int, int]], minutes: list[int | None]) -> None:
    jobs = requests(*shapes)
    runs = {run.job: run.start_ms for run in plan_in_order(plan_of(nodes), jobs, 500)}
    expected = [None if minute is None else minute * MINUTE_MS for minute in minutes]
    assert [runs.get(job.job) for job in jobs] == expected


def test_jobs_beyond_the_limit_are_not_planned() -> None:
    runs = plan_in_order(plan_of(32), requests(*[(6, 10)] * 1_000), 500)
    assert len(runs) == 500
    assert runs[-1].start_ms == 99 * 10 * MINUTE_MS


def test_ends_are_rounded_up_to_common_times() -> None:
    plan = plan_of(3, begins_ms=90_000)
    plan.reserve(90_000, 61_000, 1)
    plan.reserve(90_000, 80_000, 1)
    assert plan.earliest_start(3, MINUTE_MS) == 180_000
    assert [plan.free_at(when_ms) for when_ms in (90_000, 179_999, 180_000)] == [1, 1, 3]


def test_running_jobs_are_reserved_from_the_beginning() -> None:
    plan = plan_of(4, begins_ms=DAY_MS)
    assert plan.reserve(DAY_MS - 5 * MINUTE_MS, 10 * MINUTE_MS, 3) == (0, 1, 2)
    assert plan.earliest_start(2, MINUTE_MS) == DAY_MS + 10 * MINUTE_MS
    assert plan.earliest_start(1, MINUTE_MS) == DAY_MS


def test_a_node_free_first_and_another_free_later_are_not_one_node() -> None:
    plan = plan_of(2)
    assert plan.reserve(0, 5 * MINUTE_MS, 1) == (0,)
    assert plan.reserve(0, 10 * MINUTE_MS, 1) == (1,)
    assert plan.reserve(10 * MINUTE_MS, 10 * MINUTE_MS, 1) == (0,)
    assert [plan.free_at(minute * MINUTE_MS) for minute in (5, 10)] == [1, 1]
    assert plan.earliest_start(1, 5 * MINUTE_MS) == 5 * MINUTE_MS
    assert plan.earliest_start(1, 6 * MINUTE_MS) == 10 * MINUTE_MS


def test_more_than_is_free_cannot_be_reserved() -> None:
    plan = plan_of(4)
    plan.reserve(0, MINUTE_MS, 3)
    with pytest.raises(ValueError, match="2 nodes"):
        plan.reserve(0, MINUTE_MS, 2)


def test_licenses_are_planned_like_nodes() -> None:
    plan = NodePlan(16, 0, MINUTE_MS, DAY_MS, {"solver": 2})
    jobs = [
        NodeRequest(job=name, nodes=1, duration_ms=10 * MINUTE_MS, licenses=licenses)
        for name, licenses in [
            ("two", {"solver": 2}),
            ("one", {"solver": 1}),
            ("another", {"solver": 1}),
            ("none", {}),
            ("unheard-of", {"compiler": 1}),
        ]
    ]
    runs = plan_in_order(plan, jobs, 500)
    starts = {run.job: run.start_ms // MINUTE_MS for run in runs}
    assert starts == {"two": 0, "one": 10, "another": 10, "none": 0}


shapes = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 6)), max_size=12)


def free_throughout(
    runs: list[PlannedRun], ends_ms: dict[str, int], interval_ms: tuple[int, int]
) -> int:
    """The number of six nodes that are free during a whole interval, counted node by node."""
    start_ms, end_ms = interval_ms
    busy = {
        node
        for run in runs
        if run.start_ms < end_ms and start_ms < ends_ms[run.job]
        for node in run.nodes
    }
    return 6 - len(busy)


@given(shapes=shapes)
def test_every_job_gets_the_earliest_start_that_earlier_jobs_leave_free(
    shapes: list[tuple[int, int]],
) -> None:
    jobs = requests(*shapes)
    found = {run.job: run for run in plan_in_order(plan_of(6), jobs, 500)}
    before: list[PlannedRun] = []
    ends_ms: dict[str, int] = {}
    for job in jobs:
        run = found.get(job.job)
        if run is None:
            assert job.nodes > 6
            continue
        assert len(set(run.nodes)) == job.nodes
        ends_ms[job.job] = run.start_ms + job.duration_ms
        for start_ms in range(0, run.start_ms, MINUTE_MS):
            interval_ms = (start_ms, start_ms + job.duration_ms)
            assert free_throughout(before, ends_ms, interval_ms) < job.nodes
        apart = free_throughout([*before, run], ends_ms, (run.start_ms, ends_ms[job.job]))
        interval_ms = (run.start_ms, ends_ms[job.job])
        assert apart == free_throughout(before, ends_ms, interval_ms) - job.nodes
        before.append(run)


@given(shapes=shapes, more=shapes)
def test_jobs_of_lower_priority_delay_no_other_job(
    shapes: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    alone = plan_in_order(plan_of(6), requests(*shapes), 500)
    together = plan_in_order(plan_of(6), requests(*shapes, *more), 500)
    assert together[: len(alone)] == alone
