"""Invalid fleets, tenant trees and policies are refused with a code, the field and a fix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bursar.core.admission.admit import check_fleet
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Fleet, Market, Node
from bursar.model.tenants.governance import Governance, ModelRestriction, SpotMandatory
from bursar.model.tenants.policy import (
    BorrowWhileReclaiming,
    FairStrategy,
    OrderPolicy,
    OrderTerm,
    Policies,
    PreemptionLimits,
    PreemptionPolicy,
    Reclaim,
)
from bursar.model.tenants.tenant import Quota, Tenant
from tests.support import fleet_of, gpu_model, pool, queue, quota, state_of, tenant

GOOD_FLEET = fleet_of(
    pool("a100", nodes=2),
    pool("h100", model="h100", market=Market.SPOT),
    pool("plain", gpus=0),
    topology={"block": 2, "rack": 1},
)
GOOD_TENANTS = (
    tenant("acme", quota={"a100-80gb/owned": 16, ("cpu/owned", "memory"): quota(64, 0, 0)}),
    tenant("labs", parent="acme"),
    queue("research", parent="labs"),
    queue("alone"),
)
SMALL = fleet_of(pool("a100"))


def with_pool(fleet: Fleet = SMALL, **fields: Any) -> Fleet:
    """The small fleet with its first pool changed."""
    return replace(fleet, pools=(replace(fleet.pools[0], **fields), *fleet.pools[1:]))


def with_levels(*levels: str) -> Fleet:
    return replace(SMALL, clusters=(replace(SMALL.clusters[0], topology_levels=levels),))


FLEET_CASES: dict[str, tuple[Fleet, str, tuple[str, ...]]] = {
    "pools have names of their own": (
        fleet_of(pool("a"), pool("a", nodes=0)),
        "duplicate-pool",
        ("pools has 'a' twice", "Use each name once"),
    ),
    "nodes have ids of their own": (
        replace(SMALL, nodes=SMALL.nodes * 2),
        "duplicate-node",
        ("nodes has 'a100-0001' twice", "Use each name once"),
    ),
    "clusters have names of their own": (
        replace(SMALL, clusters=SMALL.clusters * 2),
        "duplicate-cluster",
        ("clusters has 'main' twice", "Use each name once"),
    ),
    "a pool is in a cluster that exists": (
        with_pool(cluster="mian"),
        "unknown-cluster",
        ("pools[0].cluster", "'mian'", "Did you mean 'main'?"),
    ),
    "a node is in a pool that exists": (
        replace(SMALL, nodes=(Node(id="n1", pool="a1000"),)),
        "unknown-pool",
        ("nodes[0].pool of 'n1'", "'a1000'", "Did you mean 'a100'?"),
    ),
    "a node has a domain of every level": (
        with_levels("block", "rack"),
        "missing-topology-label",
        ("nodes[0].labels of 'a100-0001' lack block, rack", "cluster 'main'", "which block"),
    ),
    "nodes are not a level": (
        with_levels("node"),
        "reserved-level",
        ("clusters[0].topology_levels", "'node'", "Leave it out"),
    ),
    "a level is named once": (
        with_levels("rack", "rack"),
        "duplicate-level",
        ("clusters[0].topology_levels", "'rack' twice", "each level once"),
    ),
    "GPUs have a model": (
        with_pool(gpu_model=None),
        "gpus-without-model",
        ("pools[0].gpu_model of 'a100'", "8 GPUs", "Write the model"),
    ),
    "a model has GPUs": (
        with_pool(gpus_per_node=0),
        "model-without-gpus",
        ("pools[0].gpus_per_node of 'a100'", "a100-80gb", "how many GPUs"),
    ),
    "a model's name means one board": (
        fleet_of(pool("a"), pool("b", model=replace(gpu_model("a100-80gb"), memory_mib=1))),
        "conflicting-gpu-model",
        ("pools[1].gpu_model", "a100-80gb", "pool 'a'", "another name"),
    ),
    "a price is not negative": (
        with_pool(node_micro_usd_per_hour=-1),
        "out-of-range",
        ("pools[0].node_micro_usd_per_hour is -1", "micro-dollars, 0 or more"),
    ),
    "a price is whole": (
        with_pool(node_micro_usd_per_hour=1.5),
        "wrong-type",
        ("pools[0].node_micro_usd_per_hour is 1.5", "whole number"),
    ),
    "a node has CPUs": (
        with_pool(cpu_milli=0),
        "out-of-range",
        ("pools[0].cpu_milli is 0", "at least 1"),
    ),
    "a node has memory": (
        with_pool(memory_mib=-5),
        "out-of-range",
        ("pools[0].memory_mib is -5", "at least 1"),
    ),
    "a node does not have a million GPUs": (
        with_pool(gpus_per_node=10**6),
        "out-of-range",
        ("pools[0].gpus_per_node is 1,000,000", "0 to 1,024"),
    ),
    "a market is one of four": (
        with_pool(market="leased"),
        "unknown-choice",
        ("pools[0].market is 'leased'", "owned, reserved, on-demand, spot"),
    ),
    "labels are a mapping": (
        with_pool(labels=("a", "b")),
        "wrong-type",
        ("pools[0].labels", "Write a mapping"),
    ),
}


def odd(**fields: Any) -> tuple[Tenant, ...]:
    return (replace(tenant("acme"), **fields),)


def holding(flavor: str, resource: str, **fields: Any) -> tuple[Tenant, ...]:
    return odd(quotas={(flavor, resource): Quota(**fields)})


TENANT_CASES: dict[str, tuple[tuple[Tenant, ...], str, tuple[str, ...]]] = {
    "tenants have names of their own": (
        (tenant("a"), queue("a")),
        "duplicate-tenant",
        ("tenants has 'a' twice", "Use each name once"),
    ),
    "a parent exists": (
        (tenant("acme"), queue("q", parent="acne")),
        "unknown-parent",
        ("tenants[1].parent of 'q' is 'acne'", "Did you mean 'acme'?"),
    ),
    "no tenant is its own ancestor": (
        (tenant("a", parent="c"), tenant("b", parent="a"), tenant("c", parent="b")),
        "tenant-cycle",
        ("tenants[0].parent", "a > b > c > a", "Leave parent out"),
    ),
    "no tenant is its own parent": (
        (queue("a", parent="a"),),
        "tenant-cycle",
        ("tenants[0].parent", "a > a", "Leave parent out"),
    ),
    "a queue has no children": (
        (queue("a"), queue("b", parent="a")),
        "queue-with-children",
        ("tenants[1].parent of 'b' is 'a', a queue", "is_queue of 'a' to false"),
    ),
    "a quota is of a flavor of the fleet": (
        holding("a100-80gb/spot", "gpu", nominal=1),
        "unknown-flavor",
        ("tenants[0].quotas of 'acme'", "'a100-80gb/spot'", "Did you mean 'a100-80gb/owned'?"),
    ),
    "a quota is of a resource": (
        holding("a100-80gb/owned", "gpus", nominal=1),
        "unknown-resource",
        ("tenants[0].quotas of 'acme'", "'gpus'", "Did you mean 'gpu'?"),
    ),
    "a nominal quota is not negative": (
        holding("a100-80gb/owned", "gpu", nominal=-1),
        "out-of-range",
        ("tenants[0].quotas[a100-80gb/owned gpu].nominal is -1", "0 or more"),
    ),
    "a borrowing limit is not negative": (
        holding("a100-80gb/owned", "gpu", borrowing_limit=-1),
        "out-of-range",
        ("tenants[0].quotas[a100-80gb/owned gpu].borrowing_limit is -1", "leave it out"),
    ),
    "a lending limit is not negative": (
        holding("a100-80gb/owned", "gpu", lending_limit=-1),
        "out-of-range",
        ("tenants[0].quotas[a100-80gb/owned gpu].lending_limit is -1", "leave it out"),
    ),
    "a weight is finite": (
        odd(weight=float("nan")),
        "out-of-range",
        ("tenants[0].weight is nan", "finite number"),
    ),
    "a weight is not negative": (
        odd(weight=-0.5),
        "out-of-range",
        ("tenants[0].weight is -0.5", "at least 0"),
    ),
    "a weight is a number": (
        odd(weight=True),
        "wrong-type",
        ("tenants[0].weight is True", "Write a number"),
    ),
    "a tenant has a name": (
        odd(name=" "),
        "empty-text",
        ("tenants[0].name is empty", "Write a name"),
    ),
    "a queue that never reclaims does not borrow to reclaim": (
        odd(
            preemption=PreemptionPolicy(
                reclaim=Reclaim.NEVER, borrow_while_reclaiming=BorrowWhileReclaiming()
            )
        ),
        "illegal-preemption",
        ("tenants[0].preemption.borrow_while_reclaiming", "reclaim is never", "Leave it out"),
    ),
}

FINAL, INITIAL = tuple(FairStrategy)

POLICY_CASES: dict[str, tuple[Policies, str, tuple[str, ...]]] = {
    "a priority is a whole number": (
        Policies(priority_classes={"high": "10"}),  # type: ignore[dict-item]
        "wrong-type",
        ("priority_classes[high] is '10'", "whole number"),
    ),
    "there is a priority class": (
        Policies(priority_classes={}),
        "no-priority-class",
        ("priority_classes is empty", "normal: 0"),
    ),
    "a governance rule refers to a label": (
        Policies(
            governance=Governance(
                restricted_models=(ModelRestriction(models=("t4",), label="interactive"),)
            )
        ),
        "not-a-label",
        ("governance.restricted_models", "kind=interactive"),
    ),
    "a governance rule exempts existing priority classes": (
        Policies(governance=Governance(spot_mandatory=SpotMandatory(exempt_priorities=("hi",)))),
        "unknown-priority-class",
        ("governance.spot_mandatory.exempt_priorities", "high"),
    ),
    "fair strategies are in order": (
        Policies(preemption=PreemptionLimits(fair_strategies=(INITIAL, FINAL))),
        "illegal-fair-strategies",
        ("preemption.fair_strategies", f"in this order: {FINAL}, {INITIAL}"),
    ),
    "a fair strategy is named once": (
        Policies(preemption=PreemptionLimits(fair_strategies=(FINAL, FINAL))),
        "illegal-fair-strategies",
        ("preemption.fair_strategies", f"in this order: {FINAL}."),
    ),
    "an order term is named once": (
        Policies(order=OrderPolicy(terms=(OrderTerm.SHORTEST, OrderTerm.SHORTEST))),
        "duplicate-term",
        ("order.terms", "shortest twice", "each term once"),
    ),
    "a half-life is not negative": (
        Policies(order=OrderPolicy(half_life_ms=-1)),
        "out-of-range",
        ("order.half_life_ms is -1", "at least 0"),
    ),
}


def expect(refusal: pytest.ExceptionInfo[UserError], code: str, words: tuple[str, ...]) -> None:
    assert refusal.value.code == code
    for word in words:
        assert word in str(refusal.value)
    assert refusal.value.fix.endswith((".", "?"))


@pytest.mark.parametrize("sentence", FLEET_CASES)
def test_a_fleet_is_refused_unless(sentence: str) -> None:
    fleet, code, words = FLEET_CASES[sentence]
    with pytest.raises(UserError) as refusal:
        check_fleet(fleet, (queue(),), Policies())
    expect(refusal, code, words)


@pytest.mark.parametrize("sentence", TENANT_CASES)
def test_a_tenant_tree_is_refused_unless(sentence: str) -> None:
    tenants, code, words = TENANT_CASES[sentence]
    with pytest.raises(UserError) as refusal:
        check_fleet(SMALL, tenants, Policies())
    expect(refusal, code, words)


@pytest.mark.parametrize("sentence", POLICY_CASES)
def test_policies_are_refused_unless(sentence: str) -> None:
    policies, code, words = POLICY_CASES[sentence]
    with pytest.raises(UserError) as refusal:
        check_fleet(SMALL, (queue(),), policies)
    expect(refusal, code, words)


@pytest.mark.parametrize("strategies", [(), (FINAL,), (INITIAL,), (FINAL, INITIAL)])
def test_a_valid_fleet_is_accepted(strategies: tuple[FairStrategy, ...]) -> None:
    policies = Policies(
        priority_classes={"low": -(10**6), "normal": 0},
        order=OrderPolicy(half_life_ms=None),
        preemption=PreemptionLimits(fair_strategies=strategies),
    )
    check_fleet(GOOD_FLEET, iter(GOOD_TENANTS), policies)
    state_of(GOOD_FLEET, GOOD_TENANTS, policies)


def test_a_cycle_is_reported_once_and_only_for_its_members() -> None:
    tenants = (tenant("below", parent="a"), tenant("a", parent="b"), tenant("b", parent="a"))
    with pytest.raises(UserError, match="a > b > a") as refusal:
        check_fleet(SMALL, tenants, Policies())
    assert "below" not in str(refusal.value)
