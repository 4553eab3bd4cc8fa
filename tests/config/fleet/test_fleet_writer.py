"""A written fleet is read as the same fleet; short forms, engines and budgets are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bursar.config import FleetFile, parse_fleet, read_fleet
from bursar.config.fleet.fleet_writer import write_fleet
from bursar.config.yaml.key_tables import exact_duration
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Cluster, EngineKind, Market, Node
from bursar.model.tenants.tenant import Budget, BudgetAction, BudgetPeriod, BudgetStep, Enforcement
from bursar.model.units import DAY_MS, GIB_MIB, HOUR_MS, MINUTE_MS
from tests.support import gpu_model
from tests.tidy.source import ROOT

FLEETS = sorted(
    {*(ROOT / "examples").rglob("fleet.yaml"), *(ROOT / "examples").rglob("*-fleet.yaml")}
)
LOCAL = "clusters: {here: {engine: local, nodes: 4, gpus: t4 x 4}}\n"

ODD = """\
clusters: {"no": {topology: [zone, rack], engine: slurm}}
pools:
  a:
    market: owned
    gpus: h100 x 8
    cpus: 0.5
    memory_gib: 1.5
    usd_per_node_hour: 14.000001
    labels: {zone: "1"}
    taints: [{key: k, value: "on"}]
    mig: false
    mps_clients: 4
    nodes: {count: 5, prefix: n, per_domain: {rack: 2}}
  b:
    market: owned
    cpus: 1
    memory_gib: 1
    usd_per_node_hour: 0
    labels: {zone: "2"}
    nodes: [{id: "7", labels: {rack: x}}, {id: n9, labels: {rack: y}}]
tenants:
  "7": {quotas: {h100/owned: {gpus: {nominal: 1.5, lend: 0}, cpus: {borrow: 2}}}, budget: 0.000001}
  top: {weight: 0.1, children: {x: {queue: false}, y: {preemption: {reclaim: never}}}}
priority_classes: {normal: 0, "yes": -5}
policies:
  order: {terms: [shortest, submitted], half_life: null, attained_levels_gpu: [90 min, 1 d 1 ms]}
  placement: first-fit
  preemption: {minimum_run: 0 s}
"""


def same(file: FleetFile) -> bool:
    """Compare tenants by name: a flat file may list them in another order."""
    again = parse_fleet({"again.yaml": write_fleet(file)})
    by_name = {tenant.name: tenant for tenant in file.tenants}
    return (again.fleet, again.policies, {t.name: t for t in again.tenants}) == (
        file.fleet,
        file.policies,
        by_name,
    )


@pytest.mark.parametrize("file", FLEETS, ids=lambda file: str(file.relative_to(ROOT)))
def test_an_example_written_back_is_the_same_fleet(file: Path) -> None:
    assert same(read_fleet(file))


@pytest.mark.parametrize("text", [ODD, LOCAL, ""])
def test_unusual_names_and_amounts_are_preserved(text: str) -> None:
    assert same(parse_fleet({"fleet.yaml": text}))


def test_a_weight_is_written_without_an_exponent() -> None:
    small = "tenants: {a: {weight: 0.0000001}}"
    assert "weight: 0.0000001" in write_fleet(parse_fleet({"fleet.yaml": small}))
    assert same(parse_fleet({"fleet.yaml": small}))


def test_writing_twice_gives_the_same_text() -> None:
    text = write_fleet(parse_fleet({"fleet.yaml": ODD}))
    assert write_fleet(parse_fleet({"fleet.yaml": text})) == text


def test_many_nodes_are_written_as_a_pattern() -> None:
    text = write_fleet(parse_fleet({"fleet.yaml": ODD}))
    assert "count: 5" in text and "n0001" not in text


def test_nodes_that_do_not_follow_a_pattern_are_listed() -> None:
    file = parse_fleet({"fleet.yaml": LOCAL})
    moved = replace(
        file.fleet,
        nodes=(*file.fleet.nodes[:3], Node(id="here-0005", pool="here")),
    )
    assert same(replace(file, fleet=moved))
    reversed_nodes = replace(file.fleet, nodes=file.fleet.nodes[::-1])
    assert same(replace(file, fleet=reversed_nodes))


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0 s"), (90 * MINUTE_MS, "1 h 30 min"), (8 * DAY_MS + 1, "1 w 1 d 1 ms")],
)
def test_times_are_exact(duration_ms: int, text: str) -> None:
    assert exact_duration(duration_ms) == text


# -- the short form ----------------------------------------------------------------------------------------


def test_a_local_fleet_fits_in_a_line() -> None:
    fleet = parse_fleet({"fleet.yaml": LOCAL}).fleet
    assert fleet.clusters == (Cluster(name="here", engine=EngineKind.LOCAL),)
    (pool,) = fleet.pools
    assert (pool.name, pool.cluster, pool.market) == ("here", "here", Market.OWNED)
    assert (pool.gpu_model, pool.gpus_per_node) == (gpu_model("t4"), 4)
    assert (pool.cpu_milli, pool.memory_mib) == (16_000, 64 * GIB_MIB)
    assert pool.node_micro_usd_per_hour > 0
    assert [node.id for node in fleet.nodes] == [f"here-000{n}" for n in range(1, 5)]


def test_the_short_form_overrides_its_defaults() -> None:
    text = "clusters: {a: {nodes: 1, cpus: 2, memory_gib: 3, disk_gib: 4, usd_per_node_hour: 5}}"
    (pool,) = parse_fleet({"fleet.yaml": text}).fleet.pools
    assert (pool.cpu_milli, pool.memory_mib, pool.disk_mib) == (2000, 3 * GIB_MIB, 4 * GIB_MIB)
    assert (pool.node_micro_usd_per_hour, pool.gpu_model) == (5_000_000, None)


def test_a_cluster_without_an_engine_is_simulated() -> None:
    (cluster,) = parse_fleet({"fleet.yaml": "clusters: {a: {}}"}).fleet.clusters
    assert cluster.engine is EngineKind.SIMULATED


@pytest.mark.parametrize(
    ("written", "budget"),
    [
        ("500", Budget(amount_micro_usd=500_000_000)),
        (
            "{usd: 10.50, period: quarter, enforcement: hard}",
            Budget(
                amount_micro_usd=10_500_000,
                period=BudgetPeriod.QUARTER,
                enforcement=Enforcement.HARD,
            ),
        ),
    ],
)
def test_a_budget_is_dollars_a_month_or_a_mapping(written: str, budget: Budget) -> None:
    (tenant,) = parse_fleet({"fleet.yaml": f"tenants: {{a: {{budget: {written}}}}}"}).tenants
    assert tenant.budget == budget


MISTAKES = {
    "an engine that does not exist": (
        "clusters: {a: {engine: locl}}",
        "fleet.yaml:1:24: 'engine' of the cluster 'a' is 'locl'.",
        "unknown-choice",
    ),
    "GPUs without nodes": (
        "clusters: {a: {gpus: t4 x 4}}",
        "fleet.yaml:1:22: 'gpus' of the cluster 'a' has no effect without 'nodes'.",
        "missing-key",
    ),
    "GPUs without a number": (
        "clusters: {a: {nodes: 1, gpus: t4}}",
        "fleet.yaml:1:32: 'gpus' of the cluster 'a' is 't4'.",
        "wrong-type",
    ),
    "an unknown GPU model": (
        "clusters: {a: {nodes: 1, gpus: t5 x 4}}",
        "fleet.yaml:1:32: 'gpus' of the cluster 'a' is 't5', not a known GPU model.",
        "unknown-gpu-model",
    ),
    "an unknown period": (
        "tenants: {a: {budget: {usd: 1, period: fortnight}}}",
        "fleet.yaml:1:40: 'period' of 'budget' of the tenant 'a' is 'fortnight'.",
        "unknown-choice",
    ),
    "a budget without an amount": (
        "tenants: {a: {budget: {period: month}}}",
        "fleet.yaml:1:23: 'budget' of the tenant 'a' lacks 'usd'.",
        "missing-key",
    ),
    "a pool with the name of a short one": (
        "clusters: {a: {nodes: 1}}\npools: {a: {market: owned, cpus: 1, memory_gib: 1, "
        "usd_per_node_hour: 1, nodes: [x]}}",
        "fleet.yaml: pools has 'a' twice.",
        "duplicate-pool",
    ),
}


@pytest.mark.parametrize("mistake", sorted(MISTAKES))
def test_an_error_has_its_location(mistake: str) -> None:
    text, problem, code = MISTAKES[mistake]
    with pytest.raises(UserError) as caught:
        parse_fleet({"fleet.yaml": text})
    assert (caught.value.problem, caught.value.code) == (problem, code)


def test_hours_over_a_day_are_written_as_days() -> None:
    assert exact_duration(25 * HOUR_MS) == "1 d 1 h"


def test_the_steps_of_a_budget_are_written_and_read_again() -> None:
    text = """
clusters: {here: {engine: local, nodes: 1, cpus: 8, memory_gib: 8, usd_per_node_hour: 1}}
tenants:
  lab:
    budget:
      usd: 250.5
      period: week
      enforcement: hard
      steps: [{at_percent: 75, action: notify}, {at_percent: 120, action: stop-preemptible}]
"""
    first = parse_fleet({"fleet.yaml": text})
    (lab,) = first.tenants
    assert lab.budget == Budget(
        amount_micro_usd=250_500_000,
        period=BudgetPeriod.WEEK,
        enforcement=Enforcement.HARD,
        steps=(
            BudgetStep(at_percent=75, action=BudgetAction.NOTIFY),
            BudgetStep(at_percent=120, action=BudgetAction.STOP_PREEMPTIBLE),
        ),
    )
    assert parse_fleet({"again.yaml": write_fleet(first)}) == first


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("{at_percent: 0, action: notify}", "out-of-range"),
        ("{at_percent: 50, action: shout}", "unknown-choice"),
        ("{at_percent: 50}", "missing-key"),
    ],
)
def test_an_invalid_step_is_rejected(step: str, code: str) -> None:
    text = "clusters: {here: {engine: local, nodes: 1, cpus: 8, memory_gib: 8, usd_per_node_hour: 1}}\n"
    text += f"tenants: {{lab: {{budget: {{usd: 1, steps: [{step}]}}}}}}\n"
    with pytest.raises(UserError) as caught:
        parse_fleet({"fleet.yaml": text})
    assert caught.value.code == code
