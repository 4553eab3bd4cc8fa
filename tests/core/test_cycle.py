"""The decisions of one cycle on small fleets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.core.cycle import decide
from bursar.model.decision import ClaimPlacement, Hold, PartitionGpu, StartJob, StopJob, StopReason
from bursar.model.event import ForeignUsageSeen, NodeDrained, NodeLost, TenantChanged
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import CheckpointPolicy, FlavorChoice, JobState, Spread, Topology
from bursar.model.reason import (
    BehindHead,
    NeverFits,
    NoCapacity,
    OverQuota,
    WaitsForJobs,
    WouldDelay,
)
from bursar.model.tenants.policy import (
    BackfillPolicy,
    OrderPolicy,
    OrderTerm,
    Policies,
    SharePolicy,
)
from bursar.model.tenants.tenant import Queueing
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.core.small_fleets import A100, borrowed, one_queue, reasons, shared
from tests.support import (
    SchedulerHarness,
    fleet_of,
    gang,
    group,
    job,
    mig_job,
    mps_job,
    pool,
    queue,
    quota,
    state_of,
    tenant,
)

# -- placement ---------------------------------------------------------------------------------


def test_small_jobs_share_the_fullest_node() -> None:
    world = one_queue(3)
    world.submit(job("a", gpus=2), job("b", gpus=4), job("c", gpus=2), job("d", gpus=8))
    world.cycle()
    assert {world.nodes_of(one)[0] for one in "abc"} == {"a100-0001"}
    assert world.nodes_of("d") == ["a100-0002"]


def test_a_gang_starts_completely_or_not_at_all() -> None:
    world = one_queue(2)
    world.submit(job("a", gpus=1), job("gang", gpus=8, tasks=2))
    world.cycle()
    assert world.started_now() == ["a"]
    assert reasons(world, "gang") == [NoCapacity]


def test_a_gang_goes_to_the_smallest_domain_that_holds_it() -> None:
    fleet = fleet_of(pool("a100", 6), topology={"block": 4, "rack": 2})
    world = SchedulerHarness(state_of(fleet))
    world.submit(job("one", gpus=8), job("pair", gpus=8, tasks=2))
    world.cycle()
    racks = {fleet.nodes[int(n[-4:]) - 1].labels["rack"] for n in world.nodes_of("pair")}
    assert len(racks) == 1


def test_a_required_rack_is_respected_even_if_the_pool_has_capacity() -> None:
    fleet = fleet_of(pool("a100", 4), topology={"rack": 2})
    world = SchedulerHarness(state_of(fleet))
    three = job("three", gpus=8, tasks=3, topology=Topology(required="rack"))
    world.submit(three, replace(three, name="preferred", constraints=job().constraints))
    world.cycle()
    assert world.started_now() == ["preferred"]
    assert reasons(world, "three") == [NoCapacity]


def test_a_launcher_without_gpus_runs_next_to_its_workers() -> None:
    world = one_queue(4)
    world.submit(gang("mpi", group("launcher", cpu=4), group("worker", 2, gpus=8)))
    world.cycle()
    placement = world.placement_of("mpi")
    places = {task.group: task.node for task in placement.tasks}
    assert {task.group for task in placement.tasks} == {"launcher", "worker"}
    assert places["launcher"] in {t.node for t in placement.tasks if t.group == "worker"}


def test_an_elastic_gang_starts_with_the_tasks_that_fit() -> None:
    world = one_queue(3)
    world.submit(job("alone", gpus=8), job("elastic", gpus=8, tasks=8, min_tasks=2))
    world.cycle()
    assert len(world.nodes_of("elastic")) == 2


def test_spread_keeps_tasks_on_different_nodes() -> None:
    world = one_queue(3)
    world.submit(job("spread", gpus=1, tasks=3, spread=Spread(max_tasks=1)))
    world.cycle()
    assert len(set(world.nodes_of("spread"))) == 3


def test_jobs_with_anti_affinity_do_not_share_a_node() -> None:
    world = one_queue(2)
    world.submit(*(job(name, gpus=1, apart="db") for name in ("a", "b", "c")))
    world.cycle()
    assert world.nodes_of("a") != world.nodes_of("b")
    assert world.started_now() == ["a", "b"]


def test_the_cheapest_pool_is_taken_unless_the_job_has_its_own_order() -> None:
    fleet = fleet_of(
        pool("owned", 1, usd_per_node_hour=30.0),
        pool("spot", 1, usd_per_node_hour=10.0, market=Market.SPOT),
    )
    world = SchedulerHarness(state_of(fleet))
    markets = (Market.OWNED, Market.SPOT)
    world.submit(
        job("cheap", gpus=1, markets=markets),
        job("loyal", gpus=1, markets=markets, choose_by=FlavorChoice.ORDER),
        job("default", gpus=1),
    )
    world.cycle()
    assert [world.placement_of(one).pool for one in ("cheap", "loyal", "default")] == [
        "spot",
        "owned",
        "owned",
    ]


def test_expected_rework_can_make_spot_more_expensive() -> None:
    spot = pool(
        "spot",
        1,
        usd_per_node_hour=10.0,
        market=Market.SPOT,
        interruptions_per_million_hours=500_000,
    )
    world = SchedulerHarness(state_of(fleet_of(pool("owned", 1, usd_per_node_hour=16.0), spot)))
    markets = (Market.OWNED, Market.SPOT)
    saved = CheckpointPolicy(interval_ms=MINUTE_MS, restart_ms=MINUTE_MS)
    world.submit(
        job("unsaved", gpus=1, hours=10, markets=markets),
        job("saved", gpus=1, hours=10, markets=markets, checkpoint=saved),
    )
    world.cycle()
    assert world.placement_of("unsaved").pool == "owned"
    assert world.placement_of("saved").pool == "spot"


def test_a_shape_that_no_pool_can_run_gets_the_reason_of_every_pool() -> None:
    world = one_queue(1)
    world.submit(job("huge", gpus=16))
    world.cycle()
    hold = world.hold_of("huge")
    assert hold is not None
    assert isinstance(hold.reasons[0], NeverFits)
    assert "8 GPUs" in str(hold.reasons[0]) and "16" in str(hold.reasons[0])


# -- parts of GPUs -----------------------------------------------------------------------------


def test_slices_fill_a_partitioned_gpu_before_another_is_partitioned() -> None:
    world = one_queue(1)
    world.submit(*(mig_job(f"s{number}", "1g.10gb") for number in range(7)))
    world.cycle()
    assert len(world.decided(PartitionGpu)) == 1
    assert len(world.started_now()) == 7


def test_a_gpu_never_has_shares_and_slices() -> None:
    world = one_queue(1)
    world.submit(mig_job("slice", "3g.40gb"), mps_job("share", 50), mps_job("other", 50))
    world.cycle()
    gpus = {
        job_id: {
            use.gpu
            for task in world.placement_of(job_id).tasks
            for use in (*task.slices, *task.shares)
        }
        for job_id in ("slice", "share", "other")
    }
    assert gpus["share"] == gpus["other"]
    assert gpus["slice"].isdisjoint(gpus["share"])


def test_a_gpu_whose_slices_are_all_free_becomes_whole_again() -> None:
    world = one_queue(1)
    world.submit(mig_job("slice"))
    world.cycle()
    world.start_all().finish("slice")
    world.submit(job("all", gpus=8))
    world.cycle()
    cuts = world.decided(PartitionGpu)
    assert [cut.layout for cut in cuts] == [()]
    assert world.started_now() == ["all"]


# -- who is next -------------------------------------------------------------------------------


def test_priority_goes_before_fairness_and_age() -> None:
    world = shared(1)
    world.submit(job("old", gpus=8, queue="research"))
    world.advance(HOUR_MS)
    world.submit(job("urgent", gpus=8, queue="product", priority_class="high"))
    world.cycle()
    assert world.started_now() == ["urgent"]


def test_a_burst_of_one_team_does_not_take_the_turn_of_another() -> None:
    world = shared(2)
    world.submit(*(job(f"r{n}", gpus=4, queue="research") for n in range(8)))
    world.submit(*(job(f"p{n}", gpus=4, queue="product") for n in range(8)))
    world.cycle()
    started = world.started_now()
    assert sorted(name[0] for name in started) == ["p", "p", "r", "r"]


def test_a_team_that_used_less_recently_goes_first() -> None:
    world = shared(1)
    world.submit(job("r1", gpus=8, queue="research"))
    world.cycle()
    world.start_all().advance(10 * HOUR_MS).finish("r1")
    world.submit(job("r2", gpus=8, queue="research"), job("p1", gpus=8, queue="product"))
    world.cycle()
    assert world.started_now() == ["p1"]


@pytest.mark.parametrize(("slack_minutes", "first"), [(30, "late"), (90, "fresh")])
def test_an_urgent_deadline_goes_before_fairness(slack_minutes: int, first: str) -> None:
    """Research has used more, so product goes first unless less than an hour can be lost."""
    world = shared(1)
    world.submit(job("r1", gpus=8, queue="research"))
    world.cycle()
    world.start_all().advance(10 * HOUR_MS).finish("r1")
    deadline_ms = world.now_ms + HOUR_MS + slack_minutes * MINUTE_MS
    world.submit(job("late", gpus=8, hours=1, queue="research", deadline_ms=deadline_ms))
    world.submit(job("fresh", gpus=8, hours=1, queue="product"))
    world.cycle()
    assert world.started_now() == [first]


def test_shortest_first_is_an_order_policy() -> None:
    order = OrderPolicy(share=SharePolicy.NONE, terms=(OrderTerm.SHORTEST,))
    world = one_queue(1, policies=Policies(order=order))
    world.submit(job("long", gpus=8, hours=9), job("short", gpus=8, hours=1))
    world.cycle()
    assert world.started_now() == ["short"]


def test_no_job_passes_the_blocked_head_of_a_strict_queue() -> None:
    strict = queue("research", queueing=Queueing.STRICT)
    world = SchedulerHarness(state_of(fleet_of(pool("a100", 1)), [strict]))
    world.submit(job("wide", gpus=8, tasks=2))
    world.advance(1)
    world.submit(job("small", gpus=1))
    world.cycle()
    assert world.started_now() == []
    assert reasons(world, "small") == [BehindHead]


# -- quota -------------------------------------------------------------------------------------


def test_a_team_borrows_idle_quota_of_the_other() -> None:
    world = shared()
    world.submit(job("wide", gpus=8, tasks=3, queue="research"))
    world.cycle()
    assert world.started_now() == ["wide"]


def test_over_quota_names_the_limiting_tenant_and_the_amount() -> None:
    teams = (tenant("acme"), queue("research", "acme", {A100: quota(8, borrow=0)}))
    world = SchedulerHarness(state_of(fleet_of(pool("a100", 4)), teams))
    world.submit(job("wide", gpus=8, tasks=2))
    world.cycle()
    hold = world.hold_of("wide")
    assert hold is not None
    assert hold.reasons == (
        OverQuota(
            queue="research",
            flavor=A100,
            resource="gpu",
            wanted=16_000,
            available=8_000,
            used=0,
            limited_by="acme",
        ),
    )


def test_a_raised_quota_lets_the_next_cycle_start_the_job() -> None:
    teams = (tenant("acme"), queue("research", "acme", {A100: 8}))
    world = SchedulerHarness(state_of(fleet_of(pool("a100", 4)), teams))
    world.submit(job("wide", gpus=8, tasks=2))
    world.cycle()
    world.apply(TenantChanged(at_ms=0, tenant=queue("research", "acme", {A100: 16})))
    world.cycle()
    assert world.started_now() == ["wide"]


# -- backfill ----------------------------------------------------------------------------------


def blocked_gang(policies: Policies | None = None) -> SchedulerHarness:
    """One node busy for an hour, one free, and a gang that needs both."""
    world = one_queue(2, policies=policies)
    world.submit(job("busy", gpus=8, hours=1))
    world.cycle()
    world.start_all()
    world.submit(job("gang", gpus=8, tasks=2, hours=1))
    world.cycle()
    world.advance(1)
    return world


def test_a_short_job_is_backfilled_past_a_gang_it_cannot_delay() -> None:
    world = blocked_gang()
    world.submit(job("short", gpus=8, hours=0.5))
    world.cycle()
    assert world.started_now() == ["short"]


def test_a_long_job_does_not_delay_the_planned_start_of_a_blocked_gang() -> None:
    world = blocked_gang()
    world.submit(job("long", gpus=8, hours=5))
    world.cycle()
    assert world.started_now() == []
    assert reasons(world, "long") == [WouldDelay]
    hold = world.hold_of("gang")
    assert hold is not None
    assert isinstance(hold.reasons[0], NoCapacity) and hold.reasons[0].expected_at_ms is not None


def test_without_reservations_the_long_job_passes() -> None:
    policies = Policies(backfill=BackfillPolicy(reservations=0))
    world = blocked_gang(policies)
    world.submit(job("long", gpus=8, hours=5))
    world.cycle()
    assert world.started_now() == ["long"]


@pytest.mark.parametrize(("waited_ms", "started"), [(HOUR_MS - 1, ["long"]), (HOUR_MS, [])])
def test_a_gang_of_unknown_run_time_gets_a_reservation_only_after_a_wait(
    waited_ms: int, started: list[str]
) -> None:
    policies = Policies(backfill=BackfillPolicy(reserve_unknown_after_ms=HOUR_MS))
    world = one_queue(2, policies=policies)
    world.submit(job("busy", gpus=8, hours=9))
    world.cycle()
    world.start_all()
    world.submit(job("gang", gpus=8, tasks=2))
    world.advance(waited_ms)
    world.submit(job("long", gpus=8, hours=20))
    world.cycle()
    assert world.started_now() == started


@pytest.mark.parametrize(("hours", "started"), [(0.5, ["other"]), (5, [])])
def test_a_job_in_another_pool_leaves_quota_for_a_planned_start(
    hours: float, started: list[str]
) -> None:
    """The second pool is idle, but a job there that runs past the planned start would use the quota."""
    research = queue("research", quota={A100: quota(16, borrow=0)})
    world = SchedulerHarness(state_of(fleet_of(pool("a", 2), pool("b", 2)), [research]))
    world.submit(job("busy", gpus=8, hours=1))
    world.cycle()
    world.start_all()
    world.submit(job("gang", gpus=8, tasks=2, hours=1))
    world.cycle()
    world.advance(1)
    world.submit(job("other", gpus=8, hours=hours))
    world.cycle()
    assert world.started_now() == started
    assert started or reasons(world, "other") == [WouldDelay, WouldDelay]


# -- ends, dependencies, nodes -----------------------------------------------------------------


def test_a_cancelled_job_is_stopped_and_then_removed() -> None:
    world = one_queue(1)
    world.submit(job("a", gpus=8))
    world.cycle()
    world.start_all().cancel("a")
    world.cycle()
    assert [order.reason for order in world.decided(StopJob)] == [StopReason.CANCELLED]
    world.cycle()
    assert world.decided(StopJob) == []
    world.preempted("a")
    assert world.state_of("a") is JobState.CANCELLED
    assert world.free_gpus("a100") == 8


def test_a_job_over_its_limit_is_stopped_and_not_queued_again() -> None:
    world = one_queue(1)
    world.submit(job("a", gpus=8, max_hours=1, retries=3))
    world.cycle()
    world.start_all().advance(HOUR_MS)
    world.cycle()
    assert [order.reason for order in world.decided(StopJob)] == [StopReason.TIME_LIMIT]
    world.preempted("a")
    assert world.state_of("a") is JobState.FAILED


def test_a_failed_attempt_is_retried_while_retries_remain() -> None:
    world = one_queue(1)
    world.submit(job("a", gpus=8, retries=1))
    for expected in (JobState.QUEUED, JobState.FAILED):
        world.cycle()
        world.start_all().fail("a")
        assert world.state_of("a") is expected


def test_a_job_waits_for_its_dependencies() -> None:
    world = one_queue(1)
    world.submit(job("first", gpus=1), job("second", gpus=1, depends_on=("first",)))
    world.cycle()
    assert world.started_now() == ["first"]
    assert reasons(world, "second") == [WaitsForJobs]
    world.start_all().finish("first")
    world.cycle()
    assert world.started_now() == ["second"]


def test_the_hold_of_a_dependent_job_follows_its_dependencies() -> None:
    world = one_queue(1)
    world.submit(job("a"), job("b"), job("c", depends_on=("a", "b")))
    waited_for = []
    for step in (world.start_all, lambda: world.finish("a"), lambda: world.fail("b")):
        world.cycle()
        step()
        world.cycle()
        hold = world.hold_of("c")
        assert hold is not None
        waited_for += hold.reasons
    assert waited_for == [
        WaitsForJobs(jobs=("a", "b")),
        WaitsForJobs(jobs=("b",)),
        WaitsForJobs(jobs=("b",), failed=("b",)),
    ]


def test_no_job_starts_on_a_drained_node_and_jobs_of_a_lost_node_are_queued_again() -> None:
    world = one_queue(2)
    world.apply(NodeDrained(at_ms=0, node="a100-0001"))
    world.submit(job("a", gpus=8))
    world.cycle()
    assert world.nodes_of("a") == ["a100-0002"]
    world.start_all()
    world.apply(NodeLost(at_ms=0, node="a100-0002"))
    assert world.state_of("a") is JobState.QUEUED
    world.cycle()
    assert world.started_now() == []


def test_an_empty_fleet_needs_no_decision() -> None:
    assert decide(state_of(fleet_of(pool("a100", 1))), 0) == ()


def test_decide_changes_no_state_and_is_deterministic() -> None:
    world = borrowed()
    world.submit(job("mine", gpus=8, queue="product"), mig_job("slice", queue="product"))
    first = decide(world.state, world.now_ms)
    assert decide(world.state, world.now_ms) == first
    assert any(isinstance(one, StartJob | Hold | ClaimPlacement) for one in first)


def test_a_late_report_about_a_lost_node_changes_nothing() -> None:
    world = one_queue(2)
    world.apply(NodeLost(at_ms=0, node="a100-0001"))
    for event in (
        NodeDrained(at_ms=1, node="a100-0001"),
        ForeignUsageSeen(at_ms=1, node="a100-0001", gpus=(0,)),
        NodeLost(at_ms=1, node="a100-0001"),
    ):
        world.apply(event)
    assert world.free_gpus("a100") == 8


def test_reloading_a_checkpoint_is_not_progress() -> None:
    world = one_queue(1)
    saved = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS)
    world.submit(job("a", gpus=8, hours=3, checkpoint=saved))
    world.cycle()
    world.start_all().advance(30 * MINUTE_MS).save("a").preempted("a")
    world.cycle()
    world.start_all().advance(35 * MINUTE_MS).save("a")
    assert world.job("a").done_ms == HOUR_MS


def test_shapes_that_differ_only_in_run_time_share_the_placement_cache() -> None:
    world = one_queue(1)
    world.submit(job("busy", gpus=8, hours=2))
    world.cycle()
    world.start_all()
    world.submit(job("short", gpus=4, hours=1), job("long", gpus=4, hours=9))
    world.submit(job("small", gpus=2, hours=1))
    world.cycle()
    plans = {one: world.job(one).backlog.plan for one in ("short", "long", "small")}
    assert plans["short"] is not plans["long"]
    assert plans["short"].capacity_key == plans["long"].capacity_key != plans["small"].capacity_key
    assert all(reasons(world, one)[0] in (NoCapacity, WouldDelay) for one in plans)
