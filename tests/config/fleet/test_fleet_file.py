"""The fleet file is read exactly, and every error has its line, column and fix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from bursar.config import parse_fleet, read_fleet
from bursar.config.fleet.fleet_file import FILE, fleet_schema
from bursar.config.fleet.owned_rate import OWNED
from bursar.config.fleet.pools import CLUSTER, NODE, NODE_PATTERN, POOL, TAINT
from bursar.config.fleet.tenants import (
    ALLOWANCE,
    BORROWING,
    BUDGET,
    BUDGET_STEP,
    PREEMPTION,
    QUOTA,
    TENANT,
)
from bursar.config.yaml.yaml_text import MOST_CHARACTERS, MOST_VALUES
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market, Node, Taint
from bursar.model.tenants.policy import (
    BackfillPolicy,
    BorrowWhileReclaiming,
    FairStrategy,
    OrderTerm,
    PlacementPolicy,
    Policies,
    PreemptionPolicy,
    Reclaim,
    SharePolicy,
    UsageUnit,
    VictimOrder,
    WithinQueue,
)
from bursar.model.tenants.tenant import CPU, GPU, MEMORY, Queueing, Quota, Tenant
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.support import gpu_model
from tests.tidy.source import ROOT

EXAMPLE = ROOT / "examples" / "fleet.yaml"
TABLES = (
    *(FILE, CLUSTER, POOL, OWNED, TAINT, NODE, NODE_PATTERN),
    *(TENANT, QUOTA, ALLOWANCE, BUDGET, BUDGET_STEP, PREEMPTION, BORROWING),
)
ANY_FIX = re.compile(r".+")

SMALL = """\
clusters: {main: {}}
pools:
  a100:
    market: owned
    gpu_model: A100-80GB
    gpus_per_node: 8
    cpus: 96
    memory_gib: 1024
    usd_per_node_hour: 16
    nodes: 2
tenants:
  research: {quotas: {a100-80gb/owned: 8}}
"""


def error_of(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_fleet({"fleet.yaml": text})
    return caught.value


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def tenants_of(text: str) -> dict[str, Tenant]:
    file = SMALL[: SMALL.index("tenants:")] + text
    return {tenant.name: tenant for tenant in parse_fleet({"fleet.yaml": file}).tenants}


# -- valid files ----------------------------------------------------------------------------------


def test_a_state_can_be_built_from_the_example() -> None:
    read = read_fleet(EXAMPLE)
    state = FleetState(read.fleet, read.tenants, read.policies)
    assert {name: len(pool.nodes) for name, pool in state.pools.items()} == {
        "a100": 8,
        "a100-spot": 2,
        "cpu": 4,
        "t4": 2,
    }
    assert [t.name for t in read.tenants if t.is_queue] == [
        "research-llm",
        "research-vision",
        "product-serving",
        "product-training",
        "platform",
    ]


def test_a_pool_is_read_in_exact_units() -> None:
    pool = next(pool for pool in read_fleet(EXAMPLE).fleet.pools if pool.name == "a100-spot")
    assert pool.gpu_model == gpu_model("a100-80gb")
    assert pool.market is Market.SPOT
    assert (pool.cpu_milli, pool.memory_mib, pool.disk_mib) == (96_000, 1360 * 1024, 3000 * 1024)
    assert pool.node_micro_usd_per_hour == 8_800_000
    assert pool.interruptions_per_million_hours == 20_000
    assert pool.taints == (Taint(key="spot"),)


@pytest.mark.parametrize(
    ("written", "nodes"),
    [
        ("2", [("a100-0001", {}), ("a100-0002", {})]),
        ("[left, {id: right, labels: {rack: 7}}]", [("left", {}), ("right", {"rack": "7"})]),
        (
            "{count: 3, prefix: n, per_domain: {rack: 2}}",
            [
                ("n0001", {"rack": "a100-rack-1"}),
                ("n0002", {"rack": "a100-rack-1"}),
                ("n0003", {"rack": "a100-rack-2"}),
            ],
        ),
    ],
)
def test_nodes_take_three_forms(written: str, nodes: list[tuple[str, dict[str, str]]]) -> None:
    read = parse_fleet({"f": changed("nodes: 2", f"nodes: {written}")})
    assert read.fleet.nodes == tuple(
        Node(id=name, pool="a100", labels=labels) for name, labels in nodes
    )


def test_tenants_nested_and_flat_are_the_same_tree() -> None:
    nested = tenants_of(
        "tenants: {acme: {weight: 2, children: {team: {children: {q: {queueing: strict}}}}}}"
    )
    flat = tenants_of(
        "tenants: {q: {parent: team, queueing: strict}, team: {parent: acme}, acme: {weight: 2}}"
    )
    assert nested == flat
    assert nested["q"] == Tenant(name="q", parent="team", is_queue=True, queueing=Queueing.STRICT)
    assert not nested["team"].is_queue and not nested["acme"].is_queue


def test_quotas_are_held_in_small_units() -> None:
    text = (
        "tenants: {q: {quotas: {A100-SXM4-80GB/owned: "
        "{gpus: {nominal: 1.5, borrow: 2, lend: 0}, cpus: 3, memory_gib: {borrow: 1}}}}}"
    )
    assert tenants_of(text)["q"].quotas == {
        ("a100-80gb/owned", GPU): Quota(nominal=1500, borrowing_limit=2000, lending_limit=0),
        ("a100-80gb/owned", CPU): Quota(nominal=3000),
        ("a100-80gb/owned", MEMORY): Quota(borrowing_limit=1024),
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{}", Tenant(name="q").preemption),
        (
            "{within_queue: never}",
            PreemptionPolicy(within_queue=WithinQueue.NEVER, reclaim=Reclaim.ANY),
        ),
        (
            "{reclaim: lower-priority, borrow_while_reclaiming: {max_priority: -5}}",
            PreemptionPolicy(
                within_queue=WithinQueue.LOWER_PRIORITY,
                reclaim=Reclaim.LOWER_PRIORITY,
                borrow_while_reclaiming=BorrowWhileReclaiming(max_priority=-5),
            ),
        ),
    ],
)
def test_preemption_is_read(written: str, meant: PreemptionPolicy) -> None:
    assert tenants_of(f"tenants: {{q: {{preemption: {written}}}}}")["q"].preemption == meant


def test_policies_are_read_by_name_and_times_with_their_unit() -> None:
    text = SMALL + (
        "priority_classes: {normal: 0, urgent: 7}\n"
        "policies:\n"
        "  order: {terms: [shortest], half_life: null, aging_step: 1 h 30 min}\n"
        "  backfill: {reservations: 3, unknown_run_time: 0.5 d}\n"
    )
    policies = parse_fleet({"fleet.yaml": text}).policies
    assert policies.order.terms == (OrderTerm.SHORTEST,)
    assert policies.order.half_life_ms is None
    assert policies.order.aging_step_ms == HOUR_MS + 30 * MINUTE_MS
    assert policies.backfill == BackfillPolicy(reservations=3, unknown_run_time_ms=DAY_MS // 2)
    assert policies.preemption == Policies().preemption
    assert policies.priority_classes == {"normal": 0, "urgent": 7}


def test_a_folder_is_read_as_one_file(tmp_path: Path) -> None:
    cut = SMALL.index("tenants:")
    (tmp_path / "a.yaml").write_text(SMALL[:cut] + "tenants: {top: {}}\n")
    (tmp_path / "b.yml").write_text("tenants: {q: {parent: top}}")
    (tmp_path / "notes.txt").write_text("not ours")
    read = read_fleet(tmp_path)
    assert [(tenant.name, tenant.is_queue) for tenant in read.tenants] == [
        ("top", False),
        ("q", True),
    ]


# -- invalid files -------------------------------------------------------------------------------

MISTAKES = {
    "a key that does not exist": (
        changed("gpus_per_node", "gpus_pernode"),
        "fleet.yaml:6:5: 'gpus_pernode' is not a key of a pool.",
        "unknown-key",
    ),
    "a section that does not exist": (
        SMALL + "tenant: {}\n",
        "fleet.yaml:13:1: 'tenant' is not a key of the file.",
        "unknown-key",
    ),
    "a GPU model that does not exist": (
        changed("A100-80GB", "A1000-80GB"),
        "fleet.yaml:5:16: 'gpu_model' of the pool 'a100' is 'A1000-80GB', not a known GPU model.",
        "unknown-gpu-model",
    ),
    "a choice that does not exist": (
        changed("market: owned", "market: own"),
        "fleet.yaml:4:13: 'market' of the pool 'a100' is 'own'.",
        "unknown-choice",
    ),
    "a text where a number should be": (
        changed("cpus: 96", "cpus: many"),
        "fleet.yaml:7:11: 'cpus' of the pool 'a100' is 'many', not a number.",
        "wrong-type",
    ),
    "an amount that is too precise": (
        changed("usd_per_node_hour: 16", "usd_per_node_hour: 16.00000001"),
        "fleet.yaml:9:24: 'usd_per_node_hour' of the pool 'a100' is 16.00000001, too precise.",
        "too-fine",
    ),
    "a negative amount": (
        changed("usd_per_node_hour: 16", "usd_per_node_hour: -1"),
        "fleet.yaml:9:24: 'usd_per_node_hour' of the pool 'a100' is -1.",
        "out-of-range",
    ),
    "something missing": (
        changed("    cpus: 96\n", ""),
        "fleet.yaml:4:5: the pool 'a100' lacks 'cpus'.",
        "missing-key",
    ),
    "a key that appears twice": (
        changed("    cpus: 96\n", "    cpus: 96\n    cpus: 97\n"),
        "fleet.yaml:8:5: 'cpus' appears twice, first in line 7.",
        "duplicate-key",
    ),
    "a name that YAML reads as a boolean": (
        changed("nodes: 2", "nodes: [true]"),
        "fleet.yaml:10:13: entry 1 of 'nodes' of the pool 'a100' is true, not a text.",
        "wrong-type",
    ),
    "a quota in a flavor that no pool has": (
        changed("a100-80gb/owned", "a100-80gb/spot"),
        "fleet.yaml:12:22: quotas of 'research' names the flavor 'a100-80gb/spot', "
        "which no pool has.",
        "unknown-flavor",
    ),
    "a flavor without a market": (
        changed("a100-80gb/owned", "a100-80gb"),
        "fleet.yaml:12:34: 'a100-80gb' of 'quotas' of the tenant 'research' is not a flavor.",
        "unknown-flavor",
    ),
    "a pool in a cluster that does not exist": (
        changed("market: owned", "market: owned\n    cluster: mian"),
        "fleet.yaml:5:14: cluster of 'a100' is 'mian', which does not exist.",
        "unknown-cluster",
    ),
    "a node without a topology label": (
        changed("{main: {}}", "{main: {topology: [rack]}}").replace("nodes: 2", "nodes: [a]"),
        "fleet.yaml:10:13: labels of 'a' lack rack, a level of cluster 'main'.",
        "missing-topology-label",
    ),
    "a tenant that appears twice": (
        SMALL + "  top: {children: {research: {}}}\n",
        "fleet.yaml:13:30: the tenant 'research' is also at fleet.yaml:12:13.",
        "duplicate-tenant",
    ),
    "a nested tenant with another parent": (
        SMALL + "  top: {children: {q: {parent: research}}}\n",
        "fleet.yaml:13:32: 'parent' of the tenant 'q' is given although 'q' is nested below 'top'.",
        "two-parents",
    ),
    "a tree that contains itself": (
        SMALL + "  top: &top {children: {below: *top}}\n",
        "fleet.yaml:13:8: YAML anchors are not supported.",
        "yaml-alias",
    ),
    "a time without a unit": (
        SMALL + "policies: {order: {half_life: 7}}\n",
        "fleet.yaml:13:31: 'half_life' of 'order' of policies is 7, not a time.",
        "wrong-type",
    ),
    "a list where a mapping should be": (
        "pools: [a]",
        "fleet.yaml:1:8: pools is a list, not a mapping.",
        "wrong-type",
    ),
    "a boolean that is not true or false": (
        changed("nodes: 2", "nodes: 2\n    mig: no"),
        "fleet.yaml:11:10: 'mig' of the pool 'a100' is 'no'.",
        "wrong-type",
    ),
    "a number with an exponent": (
        changed("cpus: 96", "cpus: 1e2"),
        "fleet.yaml:7:11: 'cpus' of the pool 'a100' is '1e2', not a number.",
        "wrong-type",
    ),
    "too many nodes": (
        changed("nodes: 2", "nodes: 99999999"),
        "fleet.yaml:10:12: 'nodes' of the pool 'a100' is 99,999,999.",
        "out-of-range",
    ),
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_an_error_has_its_location(mistake: str) -> None:
    text, problem, code = MISTAKES[mistake]
    error = error_of(text)
    assert (error.problem, error.code) == (problem, code)
    assert ANY_FIX.match(error.fix)


def test_a_text_that_is_not_yaml_has_its_location() -> None:
    error = error_of("pools: [")
    assert error.problem.startswith("fleet.yaml:1:9: this is not YAML: ")
    assert error.code == "not-yaml"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 1_000, "too-deep"),
        ("{a: " * 1_000, "too-deep"),
        ("a" * (MOST_CHARACTERS + 1), "too-large"),
        ("[" + "a," * (MOST_VALUES + 1) + "]", "too-large"),
    ],
)
def test_a_file_over_a_limit_is_rejected(text: str, code: str) -> None:
    assert error_of(text).code == code


@pytest.mark.parametrize(("written", "allowed"), [("true", True), ("false", False)])
def test_booleans_are_true_and_false(written: str, allowed: bool) -> None:
    read = parse_fleet({"f": changed("nodes: 2", f"nodes: 2\n    mig: {written}")})
    assert read.fleet.pools[0].mig_allowed is allowed


@pytest.mark.parametrize("written", ["yes", "no", "on", "off", "True", "FALSE", "1", '"true"'])
def test_other_spellings_of_booleans_are_rejected(written: str) -> None:
    error = error_of(changed("nodes: 2", f"nodes: 2\n    mig: {written}"))
    assert (error.code, error.fix) == ("wrong-type", "Write true or false.")


def test_no_and_on_are_names() -> None:
    read = parse_fleet({"f": changed("nodes: 2", "nodes: [no, on, 7]")})
    assert [node.id for node in read.fleet.nodes] == ["no", "on", "7"]


def test_the_closest_name_is_suggested() -> None:
    assert error_of(changed("gpus_per_node", "gpus_pernode")).fix.startswith(
        "Did you mean 'gpus_per_node'"
    )
    assert "a100-80gb" in error_of(changed("A100-80GB", "a100-80bg")).fix


def test_several_problems_are_reported_at_once() -> None:
    text = changed("a100-80gb/owned: 8", "t4/owned: 8, h100/owned: 1")
    assert error_of(text).problem.count("fleet.yaml:12:22: ") == 2


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_a_path_without_a_fleet_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        read_fleet(tmp_path / name)
    assert caught.value.code == "no-fleet-file"


def test_the_same_name_in_two_files_is_rejected() -> None:
    second = SMALL[SMALL.index("pools:") : SMALL.index("tenants:")]
    with pytest.raises(UserError, match=r"b:3:5: the pool 'a100' is also at a:4:5"):
        parse_fleet({"a": SMALL, "b": second})


def properties_in(schema: Any) -> Iterator[str]:
    """Every key of a schema, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for one in schema.values():
            yield from properties_in(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from properties_in(one)


# -- the page --------------------------------------------------------------------------------------


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "fleet-file.md").read_text(encoding="utf-8")
    known = set(properties_in(fleet_schema()))
    assert len(known) > 50
    assert sorted(key for key in known if f"`{key}`" not in page) == []


@pytest.mark.parametrize(
    "choices",
    [
        *(Market, Queueing, WithinQueue, Reclaim, SharePolicy, OrderTerm, UsageUnit),
        *(PlacementPolicy, VictimOrder, FairStrategy),
    ],
)
def test_the_page_names_every_choice(choices: type[Enum]) -> None:
    page = (ROOT / "docs" / "fleet-file.md").read_text(encoding="utf-8")
    names = {str(one.value) for one in choices} - {"unset"}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_every_key_has_a_meaning() -> None:
    assert all(key.meaning for table in TABLES for key in table.keys.values())


def test_every_key_of_the_policies_has_a_meaning_in_the_schema() -> None:
    policies = fleet_schema()["properties"]["policies"]
    described = list(descriptions_in(policies))
    assert len(described) > 40
    assert all(described)


def descriptions_in(schema: Any) -> Iterator[str]:
    """The description of every key of a schema, at any depth; empty if it has none."""
    if isinstance(schema, dict):
        for key in schema.get("properties", {}).values():
            yield key.get("description", "")
    for one in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(one, dict | list):
            yield from descriptions_in(one)
