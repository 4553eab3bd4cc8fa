"""Explanations of one job, and whether its alternatives really work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.cycle import decide
from bursar.core.explain.alternatives import MOST_ALTERNATIVES, MOST_TRIES, with_spec
from bursar.core.explain.explain import explain
from bursar.core.explain.smaller_requests import with_tasks
from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import StartJob
from bursar.model.errors import BrokenInvariant
from bursar.model.event import Event, JobSubmitted
from bursar.model.explain.explanation import Alternative, CapacityHolding, Explanation, QuotaHolding
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec, Topology
from bursar.model.reason import NeverFits, NoCapacity, OverQuota, WaitsForJobs, WouldDelay
from bursar.model.tenants.policy import Policies, PreemptionLimits
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from tests.core.observable_state import observable_state
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

A100 = "a100-80gb/owned"

FEWER = settings(max_examples=settings.default.max_examples // 3)
"""Each example simulates a whole fleet, so there are fewer of them."""


def run_jobs(harness: SchedulerHarness, *specs: JobSpec) -> SchedulerHarness:
    """Submits jobs, runs a cycle and starts everything it placed."""
    harness.submit(*specs)
    harness.cycle()
    return harness.start_all()


def one_node() -> SchedulerHarness:
    return SchedulerHarness(state_of(fleet_of(pool("a100"))))


def explained(harness: SchedulerHarness, job_id: str) -> Explanation:
    return explain(harness.state, job_id, harness.now_ms)


def changes(explanation: Explanation) -> list[str]:
    return [alternative.change for alternative in explanation.alternatives]


# -- position, holders, reasons --------------------------------------------------------------------


def test_the_position_in_the_queue_and_overall_is_given() -> None:
    tenants = [queue("research"), queue("product")]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100")), tenants))
    run_jobs(harness, job("fills", gpus=8, hours=1, queue="product"))
    for number in range(3):
        harness.advance(1).submit(
            job(f"r{number}", gpus=8), job(f"p{number}", gpus=8, queue="product")
        )
    harness.submit(job("urgent", gpus=8, priority_class="high", queue="product"))
    position = explained(harness, "r1").position
    assert position is not None
    assert (position.in_queue, position.queue_length) == (2, 3)
    assert (position.overall, position.waiting) == (3, 7)
    assert (
        "waits in research at position 2 of 3 in its queue, 3 of 7 overall"
        in explained(harness, "r1").lines()[0]
    )


def test_the_queues_that_hold_the_quota_are_named_with_what_they_borrow() -> None:
    tenants = [
        tenant("co", quota={A100: 4}),
        queue("research", "co", quota={A100: 8}),
        queue("product", "co", quota={A100: 2}),
        queue("elsewhere", quota={A100: 50}),
    ]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=8)), tenants))
    run_jobs(harness, job("a", gpus=8, queue="product"), job("b", gpus=2, queue="research"))
    run_jobs(harness, job("c", gpus=8, queue="elsewhere"))
    run_jobs(harness, job("held", gpus=5, queue="research", preemptible=False))
    explanation = explained(harness, "held")
    assert [type(reason) for reason in explanation.reasons] == [OverQuota]
    (holding,) = explanation.holdings
    assert isinstance(holding, QuotaHolding)
    found = [(one.queue, one.amount, one.borrowed) for one in holding.holders]
    assert found == [("product", 8000, 6000), ("research", 2000, 0)]
    assert "product 8 GPUs (6 GPUs borrowed), research 2 GPUs" in str(holding)


def test_the_jobs_that_hold_the_gpus_are_named_with_their_expected_end() -> None:
    harness = run_jobs(one_node(), job("large", gpus=5, hours=4), job("small", gpus=2, hours=1))
    run_jobs(harness.advance(30 * MINUTE_MS), job("held", gpus=4))
    explanation = explained(harness, "held")
    assert [type(reason) for reason in explanation.reasons] == [NoCapacity]
    (holding,) = explanation.holdings
    assert isinstance(holding, CapacityHolding)
    found = [(one.job_id, one.gpu_milli, one.expected_end_ms) for one in holding.holders]
    assert found == [("large", 5000, 4 * HOUR_MS), ("small", 2000, HOUR_MS)]
    assert "large of research (5 GPUs, ends in 3 h 30 min)" in str(holding)


def test_usage_and_fair_share_of_the_queue_are_given() -> None:
    tenants = [queue("research"), queue("product", weight=3)]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100")), tenants))
    run_jobs(harness, job("a", gpus=2, queue="product"), job("b", gpus=6, queue="research"))
    run_jobs(harness.advance(HOUR_MS), job("held", gpus=4, queue="product"))
    (share,) = explained(harness, "held").fair_shares
    assert (share.tenant, share.used_permille, share.promised_permille) == (
        "product",
        250,
        750,
    )
    assert (share.rank, share.siblings) == (1, 2)


def test_reasons_are_those_of_the_cycle() -> None:
    harness = run_jobs(one_node(), job("half", gpus=4, hours=4))
    run_jobs(harness.advance(1), job("whole", gpus=8, hours=9), job("zlong", gpus=4, max_hours=20))
    harness.submit(job("after", gpus=1, depends_on=("whole",)), job("never", gpus=9))
    assert [type(reason) for reason in explained(harness, "zlong").reasons] == [WouldDelay]
    assert [type(reason) for reason in explained(harness, "after").reasons] == [WaitsForJobs]
    assert [type(reason) for reason in explained(harness, "never").reasons] == [NeverFits]


def test_running_ended_and_starting_jobs_are_explained() -> None:
    harness = run_jobs(one_node(), job("runs", gpus=4, hours=2), job("done", gpus=1))
    harness.finish("done")
    harness.advance(HOUR_MS).submit(job("next", gpus=2))
    assert explained(harness, "runs").lines() == (
        "runs (4 GPUs) of research is running on a100: a100-0001, $8.00 an hour, "
        "expected to end in 1 h.",
    )
    assert explained(harness, "done").lines() == ("done has ended: succeeded.",)
    assert explained(harness, "next").lines() == (
        "next (2 GPUs) starts now on a100 for $4.00 an hour.",
    )


def test_a_job_that_waits_for_preempted_jobs_names_them() -> None:
    harness = run_jobs(one_node(), job("low", gpus=8, priority_class="low"))
    harness.advance(HOUR_MS).submit(job("urgent", gpus=8, priority_class="high"))
    assert explained(harness, "urgent").victims_stopping == ("low",)
    assert "starts when these jobs have stopped: low." in explained(harness, "urgent").lines()[0]
    harness.cycle()
    assert explained(harness, "urgent").alternatives == ()
    assert (
        "nodes reserved; waiting for 1 preempted job to stop: low"
        in explained(harness, "urgent").lines()[1]
    )


# -- alternatives ----------------------------------------------------------------------------------


def test_the_alternative_with_fewer_gpus_uses_all_free_ones() -> None:
    harness = run_jobs(one_node(), job("busy", gpus=3, hours=1), job("held", gpus=8, hours=2))
    (found,) = explained(harness, "held").alternatives
    assert (found.change, found.pool) == ("5 GPUs instead of 8", "a100")
    assert (found.micro_usd_per_hour, found.expected_micro_usd) == (10 * USD_MICRO, 20 * USD_MICRO)
    assert (
        str(found) == "5 GPUs instead of 8 (runs on a100 for $10.00 an hour, about $20.00 in total)"
    )


def test_fewer_tasks_are_suggested_for_the_largest_group() -> None:
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=4))))
    run_jobs(harness, job("busy", gpus=1, hours=1))
    run_jobs(harness, gang("held", group("launcher", cpu=1), group("worker", 4, gpus=8)))
    assert changes(explained(harness, "held")) == [
        "7 GPUs instead of 8 for each task",
        "fewer tasks: 3 of 4",
    ]


def test_of_two_equal_groups_the_first_gets_fewer_tasks() -> None:
    spec = gang("held", group("first", 2, gpus=8), group("second", 2, gpus=8))
    assert [one.count for one in with_tasks(spec, 1).spec.groups] == [1, 2]


def test_another_market_model_or_queue_is_suggested() -> None:
    fleet = fleet_of(
        pool("a100"),
        pool("spot", market=Market.SPOT, usd_per_node_hour=8),
        pool("l4", model="l4-24gb", gpus=4, usd_per_node_hour=4),
    )
    tenants = [
        tenant("co"),
        queue("research", "co", quota={A100: quota(4, borrow=0)}),
        queue("adhoc", "co", quota={A100: 4}),
    ]
    harness = SchedulerHarness(state_of(fleet, tenants))
    wanted = ("a100-80gb",)
    run_jobs(
        harness, job("busy", gpus=4, models=wanted), job("held", gpus=2, models=wanted, hours=1)
    )
    assert changes(explained(harness, "held")) == [
        "spot capacity allowed",
        "queue adhoc",
        "on l4-24gb",
    ]


def test_model_and_market_are_changed_together_if_neither_alone_helps() -> None:
    fleet = fleet_of(pool("a100", gpus=2), pool("l4", model="l4-24gb", market=Market.SPOT))
    harness = SchedulerHarness(state_of(fleet))
    run_jobs(harness, job("busy", gpus=2), job("held", gpus=1, models=("a100-80gb",)))
    assert changes(explained(harness, "held")) == ["on l4-24gb, spot capacity allowed"]


def test_a_run_time_limit_that_delays_no_reservation_is_suggested() -> None:
    harness = run_jobs(one_node(), job("half", gpus=4, hours=4))
    run_jobs(harness.advance(1), job("whole", gpus=8, hours=9))
    run_jobs(harness.advance(1), job("long", gpus=4, max_hours=8))
    assert changes(explained(harness, "long")) == ["a limit of 3 h 45 min instead of 8 h"]


def test_a_preferred_topology_is_suggested_instead_of_a_required_one() -> None:
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=4), topology={"rack": 2})))
    run_jobs(harness, job("busy", gpus=8))
    run_jobs(harness, job("held", gpus=8, tasks=3, topology=Topology(required="rack")))
    assert changes(explained(harness, "held"))[0] == "rack preferred instead of required"


def test_without_alternatives_the_explanation_says_so() -> None:
    harness = run_jobs(one_node(), job("fills", gpus=8), job("held", gpus=4))
    explanation = explained(harness, "held")
    assert explanation.alternatives == ()
    assert explanation.lines()[-1] == "No small change would start it now (2 considered)."


def test_only_a_queued_job_can_get_another_spec() -> None:
    harness = run_jobs(one_node(), job("busy", gpus=8))
    with pytest.raises(BrokenInvariant), with_spec(harness.state, "busy", job("busy", gpus=1)):
        pass


# -- properties ------------------------------------------------------------------------------------

TENANTS = [
    tenant("co", quota={A100: 8, "l4-24gb/owned": 4, "a100-80gb/spot": 8}),
    queue("research", "co", quota={A100: quota(6, borrow=4)}),
    queue("product", "co", quota={A100: quota(4, lend=2)}, weight=2),
    queue("adhoc", "co"),
]


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    name = draw(st.sampled_from(["research", "product", "adhoc"]))
    if draw(st.integers(0, 7)) == 0:
        return mig_job("j", draw(st.sampled_from(["1g.10gb", "3g.40gb"])), queue=name, hours=1)
    if draw(st.integers(0, 7)) == 0:
        return mps_job("j", draw(st.sampled_from([20, 60])), queue=name, max_hours=2)
    gpus = draw(st.sampled_from([1, 2, 3, 4, 6, 8]))
    tasks = draw(st.sampled_from([1, 1, 1, 2, 3]))
    hours = draw(st.sampled_from([1, 2, 6]))
    found = job(
        "j",
        gpus=gpus,
        tasks=tasks,
        hours=hours,
        max_hours=hours * draw(st.sampled_from([1, 2])),
        queue=name,
        models=draw(st.sampled_from([(), ("a100-80gb",), ("a100-80gb",)])),
        priority_class=draw(st.sampled_from(["low", "normal", "high"])),
        preemptible=draw(st.booleans()),
        cpu=draw(st.sampled_from([0, 4, 30])),
    )
    if draw(st.integers(0, 4)) == 0:
        topology = Topology(required="rack")
        found = replace(found, constraints=replace(found.constraints, topology=topology))
    if draw(st.integers(0, 5)) == 0:
        found = replace(found, groups=(replace(found.groups[0], min_count=1),))
    return found


def new_state() -> FleetState:
    fleet = fleet_of(
        pool("a100", nodes=2),
        pool("l4", model="l4-24gb", gpus=4, usd_per_node_hour=4),
        pool("spot", market=Market.SPOT, gpus=8, usd_per_node_hour=8),
        topology={"rack": 2},
    )
    limits = PreemptionLimits(minimum_run_ms=MINUTE_MS)
    return state_of(fleet, TENANTS, Policies(preemption=limits))


@st.composite
def worlds(draw: st.DrawFn) -> SchedulerHarness:
    """Batches of submissions; some running jobs end, some preempted jobs stop."""
    harness = SchedulerHarness(new_state())
    for batch in draw(st.lists(st.lists(specs(), min_size=1, max_size=4), min_size=1, max_size=4)):
        harness.submit(*batch)
        harness.cycle()
        harness.start_all().advance(10 * MINUTE_MS)
        if draw(st.booleans()):
            harness.preempted()
        for job_id in harness.running()[: draw(st.integers(0, 1))]:
            harness.finish(job_id)
    return harness


def state_with_alternative(log: list[Event], job_id: str, alternative: Alternative) -> FleetState:
    """The same history with the job submitted as the alternative.

    Only for a job that never ran: its runs would have changed the history.
    """
    state = new_state()
    for event in log:
        if isinstance(event, JobSubmitted) and event.job_id == job_id:
            event = replace(event, spec=alternative.spec)
        state.apply(event)
    return state


@FEWER
@given(worlds())
def test_every_alternative_really_starts_the_job_now(harness: SchedulerHarness) -> None:
    never_ran = [job_id for job_id in harness.waiting() if not harness.job(job_id).attempt]
    for job_id in never_ran:
        explanation = explained(harness, job_id)
        assert len(explanation.alternatives) <= MOST_ALTERNATIVES
        weights = [alternative.weight for alternative in explanation.alternatives]
        assert weights == sorted(weights)
        for alternative in explanation.alternatives:
            state = state_with_alternative(harness.log, job_id, alternative)
            orders = decide(state, harness.now_ms)
            (start,) = (o for o in orders if isinstance(o, StartJob) and o.job_id == job_id)
            assert start.placement.pool == alternative.pool
            assert start.placement.micro_usd_per_hour == alternative.micro_usd_per_hour


@FEWER
@given(worlds())
def test_explaining_changes_no_state_and_always_gives_a_reason(harness: SchedulerHarness) -> None:
    before = observable_state(harness.state, harness.now_ms)
    job_ids = [*harness.waiting(), *harness.running()]
    for job_id in job_ids:
        explanation = explained(harness, job_id)
        lines = explanation.lines()
        assert lines[0].startswith(job_id) and all(line.endswith(".") for line in lines)
        waits = explanation.forecast is not None and explanation.starts_on is None
        assert waits <= bool(explanation.reasons or explanation.victims_stopping)
    assert observable_state(harness.state, harness.now_ms) == before
    assert not job_ids or explained(harness, job_ids[-1]) == explanation


def test_the_number_of_cycles_for_alternatives_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cycles = 0

    def counted(state: FleetState, now_ms: int) -> object:
        nonlocal cycles
        cycles += 1
        return decide(state, now_ms)

    monkeypatch.setattr("bursar.core.explain.alternatives.decide", counted)
    tenants = [tenant("co"), *(queue(f"q{number}", "co") for number in range(50))]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=2)), tenants))
    run_jobs(harness, job("fills", gpus=8, tasks=2, queue="q0"))
    run_jobs(harness, job("held", gpus=8, tasks=500, queue="q0"))
    explained(harness, "held")
    assert 0 < cycles <= MOST_TRIES
