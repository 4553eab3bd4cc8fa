"""A new declaration: its differences, its effects on jobs in numbers, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from bursar.core.fleet_change.difference import ChangeKind, fleet_changes, refuse_bad_changes
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import EngineKind, Fleet
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Budget, Tenant
from tests.support import SchedulerHarness, fleet_of, job, mig_job, pool, queue, quota, tenant


@dataclass(frozen=True, kw_only=True)
class Declared:
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies = Policies()  # noqa: RUF009


def declared(nodes: int = 2, **quotas: float) -> Declared:
    return Declared(
        fleet=fleet_of(pool("a100", nodes, usd_per_node_hour=16)),
        tenants=(
            tenant("acme"),
            queue("red", "acme", {"a100-80gb/owned": quotas.get("red", 8)}),
            queue("blue", "acme", {"a100-80gb/owned": quotas.get("blue", 8)}),
        ),
    )


def change_texts(old: Declared | None, new: Declared, state: FleetState | None = None) -> list[str]:
    return [str(change) for change in fleet_changes(old, new, state)]


def running(old: Declared, *jobs: tuple[str, int]) -> SchedulerHarness:
    """A job of each queue with that many GPUs; those that fit are running."""
    harness = SchedulerHarness(FleetState(old.fleet, old.tenants, old.policies))
    for name, gpus in jobs:
        harness.submit(job(f"of-{name}", gpus=gpus, queue=name))
    harness.cycle()
    harness.start_all()
    return harness


# -- what is different -------------------------------------------------------------------------------


def test_a_fleet_does_not_differ_from_itself() -> None:
    assert change_texts(declared(), declared()) == []


def test_the_first_declaration_adds_everything() -> None:
    assert change_texts(None, declared()) == [
        "added cluster main: simulated",
        "added pool a100: 2 owned nodes with 8 x a100-80gb at $16.00/h each",
        "added tenant acme: at the top",
        "added tenant blue: below acme",
        "added tenant blue quota of a100-80gb/owned gpu: 8 GPUs",
        "added tenant red: below acme",
        "added tenant red quota of a100-80gb/owned gpu: 8 GPUs",
    ]


def test_every_type_of_change_is_reported_in_everyday_units() -> None:
    old = declared()
    cluster, spec = old.fleet.clusters[0], old.fleet.pools[0]
    new = Declared(
        fleet=replace(
            old.fleet,
            clusters=(replace(cluster, engine=EngineKind.LOCAL),),
            pools=(replace(spec, node_micro_usd_per_hour=14_400_000, memory_mib=2048 * 1024),),
        ),
        tenants=(
            old.tenants[0],
            replace(old.tenants[1], weight=2.0, budget=Budget(amount_micro_usd=5_000_000)),
            queue("blue", "acme", {"a100-80gb/owned": quota(4, borrow=2, lend=1)}),
        ),
        policies=Policies(priority_classes={"normal": 0, "low": -5, "urgent": 9}),
    )
    assert change_texts(old, new) == [
        "changed cluster main engine: simulated -> local",
        "changed pool a100 memory_mib: 1024 GiB -> 2048 GiB",
        "changed pool a100 node_micro_usd_per_hour: $16.00 -> $14.40",
        "changed tenant blue quota of a100-80gb/owned gpu: "
        "8 GPUs -> 4 GPUs, may borrow 2 GPUs, lends 1 GPU",
        "changed tenant red weight: 1 -> 2",
        "changed tenant red budget: none -> $5.00 a month, soft",
        "removed priority class critical: 1000 (jobs submitted before keep theirs)",
        "removed priority class high: 100 (jobs submitted before keep theirs)",
        "changed priority class low: -100 -> -5 (jobs submitted before keep theirs)",
        "added priority class urgent: 9",
    ]


def test_policy_changes_are_reported_by_field() -> None:
    old = declared()
    order = replace(old.policies.order, half_life_ms=None)
    new = replace(old, policies=replace(old.policies, order=order))
    assert change_texts(old, new) == ["changed policies order.half_life_ms: 7 d -> none"]


def test_added_and_removed_nodes_are_named() -> None:
    assert change_texts(declared(2), declared(1)) == ["removed pool a100 nodes: 1, a100-0002"]
    assert change_texts(declared(1), declared(2)) == ["added pool a100 nodes: 1, a100-0002"]


# -- what it does to jobs ----------------------------------------------------------------------------


def test_jobs_on_removed_nodes_are_counted() -> None:
    old = declared(2)
    harness = running(old, ("red", 8), ("blue", 8))
    assert change_texts(old, declared(1), harness.state) == [
        "removed pool a100 nodes: 1, a100-0002 "
        "(1 job on 1 of these nodes would be stopped and queued again)"
    ]


def test_jobs_on_nodes_that_shrink_are_reported_once() -> None:
    old = declared(2)
    harness = running(old, ("red", 4), ("blue", 4))
    smaller = replace(old.fleet.pools[0], gpus_per_node=4, cpu_milli=8000)
    new = replace(old, fleet=replace(old.fleet, pools=(smaller,)))
    changes = fleet_changes(old, new, harness.state)
    effects = [change.effect for change in changes if change.subject == "pool a100"]
    assert len(effects) == 2
    assert effects[0].startswith("2 jobs on ") and effects[1] == ""


def test_a_pool_that_only_grows_stops_no_job() -> None:
    old = declared(2)
    harness = running(old, ("red", 8))
    larger = replace(old.fleet.pools[0], memory_mib=4096 * 1024)
    new = replace(old, fleet=replace(old.fleet, pools=(larger,)))
    assert [change.effect for change in fleet_changes(old, new, harness.state)] == [""]


def test_waiting_jobs_that_could_no_longer_run_are_counted_with_the_reason() -> None:
    old = declared(2)
    harness = running(old, ("red", 8), ("blue", 8))
    harness.submit(job("gang", gpus=8, tasks=2, queue="red"), job("small", gpus=1, queue="red"))
    (*_, last) = fleet_changes(old, declared(1), harness.state)
    assert last.kind is ChangeKind.CHANGED
    assert (last.subject, last.before, last.after) == (
        "waiting jobs",
        "3 could run",
        "2 could run",
    )
    assert last.effect.startswith(
        "1 could never run any more: gang. groups do not fit on any pool at once"
    )


def test_stopped_jobs_that_could_not_restart_are_counted_too() -> None:
    old = declared(1)
    harness = running(old, ("red", 8))
    smaller = replace(old.fleet.pools[0], gpus_per_node=4)
    new = replace(old, fleet=replace(old.fleet, pools=(smaller,)))
    (*_, last) = fleet_changes(old, new, harness.state)
    assert "1 could never run any more: of-red" in last.effect


def test_a_job_that_could_not_run_before_is_not_counted() -> None:
    old = declared(1)
    harness = running(old)
    harness.submit(mig_job("odd", profile="9g.99gb", queue="red"))
    assert change_texts(old, declared(1, red=4), harness.state) == [
        "changed tenant red quota of a100-80gb/owned gpu: 8 GPUs -> 4 GPUs"
    ]


def test_a_quota_below_use_is_reported_with_amounts() -> None:
    old = declared(2)
    harness = running(old, ("red", 8))
    assert change_texts(old, declared(2, red=2), harness.state) == [
        "changed tenant red quota of a100-80gb/owned gpu: 8 GPUs -> 2 GPUs "
        "(uses 8 GPUs now, 6 GPUs more than that; "
        "the excess counts as borrowed and may be reclaimed)"
    ]


def test_a_quota_and_limit_below_use_hold_the_queue() -> None:
    old = declared(2)
    harness = running(old, ("red", 8))
    tight = queue("red", "acme", {"a100-80gb/owned": quota(2, borrow=1)})
    new = replace(old, tenants=(old.tenants[0], tight, old.tenants[2]))
    (change,) = fleet_changes(old, new, harness.state)
    assert change.effect.endswith("none of its jobs starts until it uses less")


# -- what is refused ---------------------------------------------------------------------------------


def test_a_queue_with_jobs_cannot_be_removed() -> None:
    old = declared(2)
    harness = running(old, ("red", 8))
    harness.submit(job("waits", gpus=8, queue="red"))
    new = replace(old, tenants=(old.tenants[0], old.tenants[2]))
    changes = fleet_changes(old, new, harness.state)
    assert [change.is_refused for change in changes] == [True]
    with pytest.raises(UserError, match="tenant red: it has 2 unfinished jobs") as caught:
        refuse_bad_changes(changes)
    assert caught.value.code == "queue-in-use"
    assert "bursar cancel --queue red" in caught.value.fix


def test_a_queue_with_jobs_cannot_get_children_and_all_refusals_are_reported() -> None:
    old = declared(2)
    harness = running(old, ("red", 8), ("blue", 8))
    branch = replace(old.tenants[1], is_queue=False)
    new = replace(old, tenants=(old.tenants[0], branch))
    with pytest.raises(UserError) as caught:
        refuse_bad_changes(fleet_changes(old, new, harness.state))
    assert caught.value.problem.startswith("2 changes cannot be made:")


def test_a_queue_without_jobs_can_be_removed() -> None:
    old = declared(2)
    harness = running(old, ("red", 8))
    new = replace(old, tenants=old.tenants[:2])
    changes = fleet_changes(old, new, harness.state)
    refuse_bad_changes(changes)
    assert [str(change) for change in changes] == ["removed tenant blue"]


def test_comparing_changes_no_state() -> None:
    old = declared(2)
    harness = running(old, ("red", 8), ("blue", 8))
    harness.submit(job("waits", gpus=8, queue="red"))
    before = sorted((r.id, r.state, r.attempt) for r in harness.state.jobs.values())
    fleet_changes(old, declared(1, red=1, blue=0), harness.state)
    assert sorted((r.id, r.state, r.attempt) for r in harness.state.jobs.values()) == before
    assert harness.free_gpus("a100") == 0
