"""Which jobs are preempted, and how their placement is claimed."""

from __future__ import annotations

from bursar.model.decision import ClaimPlacement
from bursar.model.event import NodeLost
from bursar.model.jobs.job import JobState
from bursar.model.tenants.policy import (
    Policies,
    PreemptionLimits,
    VictimOrder,
)
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.core.small_fleets import borrowed, one_queue, shared
from tests.support import (
    SchedulerHarness,
    fleet_of,
    job,
    mig_job,
    pool,
    state_of,
)


def test_a_team_reclaims_its_quota_and_claims_the_placement() -> None:
    world = borrowed()
    world.submit(job("mine", gpus=8, queue="product"))
    world.cycle()
    (victim,) = world.preempted_now()
    assert world.claimed_now() == ["mine"]
    world.submit(job("thief", gpus=8, queue="research", priority_class="critical"))
    world.cycle()
    world.preempted(victim)
    world.cycle()
    assert "mine" in world.started_now()
    assert "thief" not in world.started_now()


def test_the_job_that_loses_the_least_work_is_preempted() -> None:
    world = borrowed()
    world.save("r2")
    world.submit(job("mine", gpus=8, queue="product"))
    world.cycle()
    assert world.preempted_now() == ["r2"]


def test_newest_first_is_a_victim_order() -> None:
    limits = PreemptionLimits(victim_order=VictimOrder.NEWEST_FIRST)
    world = shared(policies=Policies(preemption=limits))
    for number in range(4):
        world.submit(job(f"r{number}", gpus=8, queue="research"))
        world.cycle()
        world.start_all().advance(HOUR_MS)
    world.save("r0")
    world.submit(job("mine", gpus=8, queue="product"))
    world.cycle()
    assert world.preempted_now() == ["r3"]


def test_no_job_is_preempted_before_its_minimum_run_time() -> None:
    world = shared()
    world.submit(*(job(f"r{n}", gpus=8, queue="research") for n in range(4)))
    world.cycle()
    world.start_all().advance(MINUTE_MS)
    world.submit(job("mine", gpus=8, queue="product"))
    world.cycle()
    assert world.preempted_now() == []


def test_a_job_that_is_not_preemptible_is_not_preempted() -> None:
    world = shared()
    world.submit(*(job(f"r{n}", gpus=8, queue="research", preemptible=False) for n in range(4)))
    world.cycle()
    world.start_all().advance(HOUR_MS)
    world.submit(job("mine", gpus=8, queue="product"))
    world.cycle()
    assert world.preempted_now() == []


def test_a_job_is_preempted_at_most_as_often_as_its_budget_allows() -> None:
    limits = PreemptionLimits(preemptions_per_job=1, minimum_run_ms=0)
    world = one_queue(1, policies=Policies(preemption=limits))
    world.submit(job("low", gpus=8, priority_class="low"))
    world.cycle()
    world.start_all().advance(1)
    world.submit(job("first", gpus=8))
    world.cycle()
    assert world.preempted_now() == ["low"]
    world.preempted("low")
    world.cycle()
    world.start_all().finish("first")
    world.cycle()
    world.start_all().advance(1)
    world.submit(job("second", gpus=8))
    world.cycle()
    assert world.preempted_now() == []


def test_a_gang_is_preempted_as_a_whole() -> None:
    world = one_queue(2)
    world.submit(job("gang", gpus=8, tasks=2, priority_class="low"))
    world.cycle()
    world.start_all().advance(HOUR_MS)
    world.submit(job("one", gpus=8))
    world.cycle()
    world.preempted("gang")
    world.cycle()
    assert world.started_now() == ["one"]
    assert world.state_of("gang") is JobState.QUEUED
    assert world.free_gpus("a100") == 8


def test_a_gang_of_slices_starts_on_its_claim() -> None:
    world = SchedulerHarness(state_of(fleet_of(pool("a100", 1, gpus=2))))
    world.submit(mig_job("low", "3g.40gb", tasks=4, priority_class="low"))
    world.cycle()
    world.start_all().advance(HOUR_MS)
    world.submit(mig_job("high", "2g.20gb", tasks=6))
    world.cycle()
    assert (world.preempted_now(), world.claimed_now()) == (["low"], ["high"])
    world.preempted("low")
    world.cycle()
    assert world.started_now() == ["high"]


def test_a_job_with_a_claim_on_a_lost_node_is_queued_again() -> None:
    world = borrowed()
    world.submit(job("mine", gpus=8, queue="product"))
    world.cycle()
    (claim,) = world.decided(ClaimPlacement)
    world.apply(NodeLost(at_ms=world.now_ms, node=claim.placement.tasks[0].node))
    world.cycle()
    assert world.hold_of("mine") is not None or "mine" in world.claimed_now()
