"""The next job: the tournament compared with the full ranking, and the order policies."""

from __future__ import annotations

from itertools import pairwise
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from bursar.core.draft import Draft
from bursar.core.ordering.urgency import levels_of, order_for
from bursar.core.other_schedulers.slurm_fair_tree import FairTreeKey, FairTreeKeys, share_tree_of
from bursar.model.tenants.policy import (
    OrderPolicy,
    OrderTerm,
    Policies,
    PreemptionLimits,
    PreemptionPolicy,
    SharePolicy,
    UsageUnit,
    WithinQueue,
)
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, state_of, submit, tenant

A100 = "a100-80gb/owned"


@st.composite
def shared_trees(draw: st.DrawFn) -> list[tuple[Tenant, int]]:
    """A tree with one root, and how much each queue uses per millisecond."""
    found: list[tuple[Tenant, int]] = [(tenant("root"), 0)]
    inner = ["root"]
    for number in range(draw(st.integers(1, 5))):
        name = f"team-{number}"
        parent = draw(st.sampled_from(inner))
        found.append((tenant(name, parent, weight=draw(st.integers(0, 3))), 0))
        inner.append(name)
    used = st.sampled_from((0, 0, 1, 5, 7, 20))
    for number in range(draw(st.integers(1, 8))):
        weight = draw(st.integers(0, 3))
        here = queue(f"queue-{number}", draw(st.sampled_from(inner)), weight=weight)
        found.append((here, draw(used)))
    below = {one.parent for one, _ in found}
    return [(one, rate) for one, rate in found if one.is_queue or one.name in below]


@given(shared_trees())
def test_the_tournament_follows_the_full_fair_tree_ranking(tree: list[tuple[Tenant, int]]) -> None:
    tenants = [one for one, _ in tree]
    state = state_of(fleet_of(pool("a100")), tenants)
    for one, rate in tree:
        if rate:
            state.usage.start(one.name, rate, 0)
        if one.is_queue:
            submit(state, job(f"job-{one.name}", queue=one.name))
    now_ms = HOUR_MS
    draft = Draft(state, now_ms)
    (backlogs,) = levels_of(draft)
    order = order_for(draft, backlogs)
    visited = []
    while (backlog := order.next()) is not None:
        visited.append(backlog.kind.queue)
        order.drop()
    shares = share_tree_of(
        {one.name: one.parent for one in tenants}, {one.name: int(one.weight) for one in tenants}
    )
    keys = FairTreeKeys(shares, state.usage, state.policies.order.entry_horizon_ms)
    assert sorted(visited) == sorted(one.name for one in tenants if one.is_queue)
    for first, second in pairwise(visited):
        assert may_go_before(keys.fair_tree_key(first, now_ms), keys.fair_tree_key(second, now_ms))


def test_where_shares_tie_a_queue_goes_before_a_tenant_with_queues() -> None:
    tenants = [tenant("co"), tenant("a-team", "co"), queue("a-queue", "a-team"), queue("z", "co")]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=1)), tenants))
    harness.submit(job("team", gpus=8, queue="a-queue"), job("direct", gpus=8, queue="z"))
    harness.cycle()
    assert harness.started_now() == ["direct"]


def may_go_before(first: FairTreeKey, second: FairTreeKey) -> bool:
    """Whether the ranking puts one before the other, or ties them except for rounding."""
    for ours, theirs in zip(first, second, strict=False):
        if isinstance(ours, float) and isinstance(theirs, float):
            if not isclose(ours, theirs, rel_tol=1e-9):
                return ours < theirs
            if ours != theirs:
                return True
        elif ours != theirs:
            return bool(ours < theirs)  # type: ignore[operator]
    return True


def started(policy: OrderPolicy, *jobs: tuple[str, str, int]) -> list[str]:
    """Submits jobs (name, queue, gpus) to one node of 8 GPUs; returns them in order of start."""
    tenants = (tenant("co"), queue("a", "co", {A100: 2}), queue("b", "co", {A100: 6}))
    harness = SchedulerHarness(state_of(fleet_of(pool("a100")), tenants, Policies(order=policy)))
    for name, where, gpus in jobs:
        harness.submit(job(name, gpus=gpus, queue=where, hours=gpus))
        harness.advance(MINUTE_MS)
    harness.cycle()
    return harness.started_now()


def test_by_dominant_share_the_smallest_borrower_goes_first() -> None:
    jobs = (("a1", "a", 4), ("a2", "a", 4), ("b1", "b", 4))
    policy = OrderPolicy(share=SharePolicy.DOMINANT_SHARE)
    assert sorted(started(policy, *jobs)) == ["a1", "b1"]


def test_without_shares_the_oldest_goes_first_regardless_of_tenant() -> None:
    jobs = (("a1", "a", 4), ("a2", "a", 4), ("b1", "b", 4))
    assert started(OrderPolicy(share=SharePolicy.NONE), *jobs) == ["a1", "a2"]


def test_terms_are_compared_in_the_order_of_the_policy() -> None:
    jobs = (("wide", "b", 8), ("narrow", "b", 1))
    for terms, first in (
        ((OrderTerm.SUBMITTED, OrderTerm.SMALLEST), "wide"),
        ((OrderTerm.SMALLEST, OrderTerm.SUBMITTED), "narrow"),
    ):
        assert started(OrderPolicy(share=SharePolicy.NONE, terms=terms), *jobs) == [first]


def test_smallest_and_least_work_are_order_terms() -> None:
    jobs = (("wide", "b", 8), ("narrow", "b", 1))
    for term in (OrderTerm.SMALLEST, OrderTerm.LEAST_WORK, OrderTerm.SHORTEST):
        policy = OrderPolicy(share=SharePolicy.NONE, terms=(term,))
        assert started(policy, *jobs) == ["narrow"]


def test_with_aging_waiting_raises_a_low_priority() -> None:
    policy = Policies(order=OrderPolicy(aging_step_ms=MINUTE_MS))
    harness = SchedulerHarness(state_of(fleet_of(pool("a100")), policies=policy))
    harness.submit(job("old", gpus=8, priority_class="low"))
    harness.advance(101 * MINUTE_MS)
    harness.submit(job("new", gpus=8))
    harness.cycle()
    assert harness.started_now() == ["old"]


def test_usage_counts_gpu_hours_by_speed_or_dollars() -> None:
    pools = (
        pool("a100", usd_per_node_hour=8.0),
        pool("t4", gpus=8, model="t4-16gb", usd_per_node_hour=8.0),
    )
    jobs = (
        job("slow", gpus=8, queue="a", models=("t4-16gb",)),
        job("fast", gpus=8, queue="b", models=("a100-80gb",)),
    )
    had = {}
    for unit in UsageUnit:
        tenants = (tenant("co"), queue("a", "co"), queue("b", "co"))
        policies = Policies(order=OrderPolicy(usage_unit=unit))
        harness = SchedulerHarness(state_of(fleet_of(*pools), tenants, policies))
        harness.submit(*jobs)
        harness.cycle()
        had[unit] = (harness.state.usage.rate("a"), harness.state.usage.rate("b"))
    assert had[UsageUnit.DOLLARS][0] == had[UsageUnit.DOLLARS][1]
    assert had[UsageUnit.GPU_HOURS][0] < had[UsageUnit.GPU_HOURS][1]


def time_sharing(term: OrderTerm) -> SchedulerHarness:
    """One node; a job with a long run behind it and before it; then a short one arrives."""
    sharing = PreemptionPolicy(within_queue=WithinQueue.LATER_IN_ORDER)
    policies = Policies(
        order=OrderPolicy(
            share=SharePolicy.NONE, terms=(term,), attained_levels_gpu_ms=(8 * HOUR_MS,)
        ),
        preemption=PreemptionLimits(minimum_run_ms=0),
    )
    fleet = fleet_of(pool("a100"))
    harness = SchedulerHarness(state_of(fleet, [queue(preemption=sharing)], policies))
    harness.submit(job("long", gpus=8, hours=10))
    harness.cycle()
    return harness.start_all().advance(HOUR_MS)


def test_shortest_remaining_preempts_the_job_with_more_remaining_work() -> None:
    harness = time_sharing(OrderTerm.SHORTEST_REMAINING)
    harness.submit(job("longer", gpus=8, hours=9.5))
    harness.cycle()
    assert harness.preempted_now() == []
    harness.submit(job("short", gpus=8, hours=1))
    harness.cycle()
    assert (harness.preempted_now(), harness.claimed_now()) == (["long"], ["short"])


def test_least_attained_stops_only_jobs_of_a_lower_level() -> None:
    harness = time_sharing(OrderTerm.LEAST_ATTAINED)
    harness.submit(job("new", gpus=8, hours=20))
    harness.cycle()
    assert (harness.preempted_now(), harness.claimed_now()) == (["long"], ["new"])
    harness.preempted("long")
    harness.cycle()
    harness.start_all().advance(MINUTE_MS)
    harness.submit(job("newer", gpus=8, hours=1))
    harness.cycle()
    assert harness.preempted_now() == []
    assert harness.job("long").rank[0] == 1
