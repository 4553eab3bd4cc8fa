"""Policies by name: each selects rules of the core, and an unknown name is rejected."""

from __future__ import annotations

import pytest

from bursar.core.check import require_valid
from bursar.model.errors import UserError
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.tenants.policy import (
    BackfillPolicy,
    OrderPolicy,
    OrderTerm,
    PlacementPolicy,
    Policies,
    PreemptionLimits,
    SharePolicy,
    VictimOrder,
    WithinQueue,
)
from bursar.model.tenants.tenant import Queueing, Tenant
from bursar.simulate.named_policies import (
    ORDERS,
    PLACEMENTS,
    TURNS_PER_JOB,
    RunTimeSource,
    choose_policy,
)
from bursar.simulate.runs import FleetChoice, RunRequest, prepare
from bursar.simulate.simulation import Simulation
from bursar.simulate.workload.trace_scenario import TraceMapping
from tests.support import fleet_of, pool

OWN = Policies(
    order=OrderPolicy(share=SharePolicy.DOMINANT_SHARE),
    placement=PlacementPolicy.FIRST_FIT,
    backfill=BackfillPolicy(reservations=4),
    priority_classes={"usual": 0, "urgent": 9},
)
TENANTS = (
    Tenant(name="acme"),
    Tenant(name="a", parent="acme", is_queue=True, queueing=Queueing.STRICT),
    Tenant(name="b", parent="acme", is_queue=True),
)


def queueing(policy: str) -> list[Queueing]:
    return [one.queueing for one in choose_policy(policy, OWN).tenants(TENANTS)[1:]]


@pytest.mark.parametrize("text", ["", "fleet", "order=fleet", " "])
def test_without_a_name_the_fleet_keeps_its_policies(text: str) -> None:
    choice = choose_policy(text, OWN)
    assert choice.policies == OWN
    assert choice.tenants(TENANTS) == TENANTS
    assert choice.estimates is RunTimeSource.WRITTEN


def test_ours_is_the_default_and_jobs_take_turns() -> None:
    choice = choose_policy("bursar", Policies())
    turns = PreemptionLimits(
        victim_order=VictimOrder.LATEST_FIRST, preemptions_per_job=TURNS_PER_JOB
    )
    assert choice.policies == Policies(preemption=turns)
    assert {one.preemption.within_queue for one in choice.tenants(TENANTS)[1:]} == {
        WithinQueue.LATER_IN_ORDER
    }


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_every_order_keeps_the_fleets_priority_classes_and_is_deterministic(name: str) -> None:
    choice = choose_policy(name, OWN)
    assert choice.name == name
    assert choice.policies.priority_classes == OWN.priority_classes
    assert choose_policy(f"order={name}", OWN).policies == choice.policies


@pytest.mark.parametrize(
    ("name", "terms", "strict", "estimates"),
    [
        ("fifo-strict", OrderTerm.SUBMITTED, True, RunTimeSource.WRITTEN),
        ("fifo", OrderTerm.SUBMITTED, False, RunTimeSource.WRITTEN),
        ("sjf", OrderTerm.SHORTEST, True, RunTimeSource.ORACLE),
        ("sjf-skip", OrderTerm.SHORTEST, False, RunTimeSource.ORACLE),
        ("service-first", OrderTerm.LEAST_WORK, True, RunTimeSource.ORACLE),
        ("qssf", OrderTerm.LEAST_WORK, True, RunTimeSource.LEARNED),
    ],
)
def test_orders_from_the_literature(
    name: str, terms: OrderTerm, strict: bool, estimates: RunTimeSource
) -> None:
    choice = choose_policy(name, OWN)
    assert choice.policies.order == OrderPolicy(share=SharePolicy.NONE, terms=(terms,))
    assert queueing(name) == [Queueing.STRICT if strict else Queueing.BEST_EFFORT] * 2
    assert choice.estimates is estimates
    assert choice.policies.backfill.reservations == 0
    assert choice.policies.preemption.searches_per_cycle == 0


@pytest.mark.parametrize(
    ("name", "term", "estimates"),
    [
        ("srtf", OrderTerm.SHORTEST_REMAINING, RunTimeSource.ORACLE),
        ("las", OrderTerm.LEAST_ATTAINED, RunTimeSource.NONE),
    ],
)
def test_time_sharing_preempts_the_later_job(
    name: str, term: OrderTerm, estimates: RunTimeSource
) -> None:
    choice = choose_policy(name, OWN)
    assert choice.policies.order.terms == (term,)
    assert choice.estimates is estimates
    assert choice.policies.preemption.preemptions_per_job > 1_000
    assert {one.preemption.within_queue for one in choice.tenants(TENANTS)[1:]} == {
        WithinQueue.LATER_IN_ORDER
    }
    quick = choose_policy(f"{name},minimum-run=0", OWN).policies.preemption
    assert quick.minimum_run_ms == 0 and quick.searches_per_cycle > 0


def test_strict_changes_only_queues() -> None:
    assert choose_policy("sjf", OWN).tenants(TENANTS)[0] == TENANTS[0]


def test_share_policies_do_not_change_queueing() -> None:
    assert queueing("fair-tree") == [Queueing.STRICT, Queueing.BEST_EFFORT]
    assert queueing("dominant-share") == [Queueing.STRICT, Queueing.BEST_EFFORT]


@pytest.mark.parametrize(("text", "count"), [("none", 0), ("easy", 1), ("conservative:16", 16)])
def test_backfill_is_a_number_of_reservations(text: str, count: int) -> None:
    choice = choose_policy(f"order=sjf,backfill={text}", OWN)
    assert choice.policies.backfill.reservations == count
    assert choice.policies.order.terms == (OrderTerm.SHORTEST,)


@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_placements(name: str) -> None:
    assert choose_policy(f"placement={name}", OWN).policies.placement == name


@pytest.mark.parametrize(
    ("text", "victims"),
    [
        ("newest", VictimOrder.NEWEST_FIRST),
        ("least-lost-work", VictimOrder.LEAST_LOST_WORK),
        ("latest-first", VictimOrder.LATEST_FIRST),
    ],
)
def test_preemption_can_be_added_to_an_order_without(text: str, victims: VictimOrder) -> None:
    limits = choose_policy(f"fifo,preemption={text}", OWN).policies.preemption
    assert limits.victim_order is victims
    assert limits.searches_per_cycle == Policies().preemption.searches_per_cycle


def test_preemption_can_be_taken_from_ours() -> None:
    limits = choose_policy("bursar,preemption=none,minimum-run=60", OWN).policies.preemption
    assert limits.searches_per_cycle == 0
    assert limits.minimum_run_ms == 60_000


def test_a_key_without_an_order_changes_the_fleets_policy() -> None:
    choice = choose_policy("backfill=none,estimates=learned", OWN)
    assert choice.policies.order == OWN.order
    assert choice.policies.placement is OWN.placement
    assert choice.policies.backfill.reservations == 0
    assert choice.estimates is RunTimeSource.LEARNED


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("fifo-srtict", "'fifo-srtict' is not an order", "Did you mean 'fifo-strict'?"),
        ("xyz", "'xyz' is not an order", "There are: bursar, fifo-strict, fifo,"),
        ("ordr=sjf", "'ordr' is not a key of a policy", "Did you mean 'order'?"),
        ("placement=bestfit", "'bestfit' is not a placement", "Did you mean 'best-fit'?"),
        ("backfill=esay", "'esay' is not a backfill", "Did you mean 'easy'?"),
        ("backfill=easy:3", "'easy:3' is not a backfill", "none, easy, conservative:K"),
        ("backfill=conservative", "lacks the number of jobs", "'conservative:16'"),
        ("backfill=conservative:0", "lacks the number of jobs", "1 or more"),
        ("backfill=conservative:²", "lacks the number of jobs", "1 or more"),
        ("preemption=newst", "'newst' is not a preemption", "Did you mean 'newest'?"),
        ("estimates=orcale", "'orcale' is not a source of estimates", "Did you mean 'oracle'?"),
        ("minimum-run=1h", "not a number of seconds", "minimum-run=60"),
        ("sjf,order=fifo", "sets order twice", "once"),
        ("order=", "'' is not an order", "There are:"),
    ],
)
def test_an_unknown_name_is_rejected_with_suggestions(text: str, problem: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        choose_policy(text, OWN)
    assert problem in caught.value.problem
    assert fix in caught.value.fix


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_under_every_order_each_decision_is_valid_and_every_job_ends(name: str) -> None:
    request = RunRequest(
        name=name,
        source="synthetic:philly-like?jobs=120&load=1.5",
        fleet=FleetChoice(
            name="small", fleet=fleet_of(pool("a", 2)), tenants=(), policies=Policies()
        ),
        policy=name,
        mapping=TraceMapping(checkpoint=CheckpointPolicy(interval_ms=600_000, restart_ms=30_000)),
    )
    prepared = prepare(request)
    simulation = Simulation(prepared.scenario, check=require_valid)
    submitted = sum(
        isinstance(event, JobSubmitted) for step in simulation.steps() for event in step.events
    )
    assert submitted == 120 - len(prepared.remarks.left_out) > 100
    assert not simulation.state.jobs
