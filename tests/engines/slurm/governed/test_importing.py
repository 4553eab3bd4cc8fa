"""Imports a Slurm cluster as a fleet: pools, tenants, quotas, policies, and notes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.catalog.gpu_models import find_gpu_model
from bursar.config import FleetFile, parse_fleet
from bursar.config.fleet.fleet_writer import write_fleet
from bursar.engines.slurm.commands.inventory import inventory
from bursar.engines.slurm.governed.import_cluster import (
    ImportedFleet,
    ModelsAndPrices,
    import_fleet,
)
from bursar.engines.slurm.governed.present import CurrentSetup, read_current_setup
from bursar.model.errors import UserError
from bursar.model.tenants.policy import SharePolicy
from bursar.model.tenants.tenant import GPU, Quota
from bursar.model.units import DAY_MS
from tests.engines.slurm.governed.fake_slurm import FakeSlurm

CONFIG = """\
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = lab
PreemptMode             = REQUEUE
PreemptExemptTime       = 00:05:00
PriorityDecayHalfLife   = 14-00:00:00
PriorityType            = priority/multifactor
PriorityWeightFairShare = 10000
PriorityWeightJobSize   = 100
SchedulerType           = sched/backfill
SLURM_VERSION           = 22.05.8
"""
ASSOC = """\
Account|ParentName|User|Partition|Share|GrpTRES|GrpTRESMins|QOS|Def QOS
root||||1|||normal|
root||root||1|||normal|
product|root|||40|gres/gpu:t4=8||normal|
product||carol||1|||normal|
research|root|||60|||normal|
research||alice||1|||normal|
vision|research|||2|||normal,vision|vision
vision||bob||1|||normal,vision|vision
"""
QOS = """\
Name|Priority|GraceTime|Preempt|GrpTRES
normal|0|00:00:00||
vision|1000|00:00:30||gres/gpu:t4=4
"""
NODE = (
    "NodeName={name} CPUTot={cpus} AvailableFeatures={kind} Gres={gres} RealMemory=64000 "
    "State={state} TmpDisk=0 Partitions={partitions}\n"
)
PARTITION = (
    "PartitionName={name} Default={first} DefaultTime=01:00:00 MaxTime=7-00:00:00 "
    "Nodes={nodes} State=UP\n"
)


def slurm(kind: str = "t4", config: str = CONFIG) -> FakeSlurm:
    nodes = [("n1", "train,serve"), ("n2", "train,serve"), ("n3", "train")]
    text = "".join(
        NODE.format(
            name=name, cpus=32, kind=kind, gres=f"gpu:{kind}:4", state="IDLE", partitions=where
        )
        for name, where in nodes
    )
    text += NODE.format(
        name="c1", cpus=8, kind="", gres="(null)", state="IDLE+CLOUD", partitions="train"
    )
    return FakeSlurm(
        {
            "scontrol show config": config,
            "sacctmgr -P show assoc": ASSOC,
            "sacctmgr -P show qos": QOS,
            "scontrol -o show partition": PARTITION.format(
                name="train", first="YES", nodes="n[1-3],c1"
            )
            + PARTITION.format(name="serve", first="NO", nodes="n[1-2]"),
            "scontrol show topology": "",
            "scontrol -d -o show node": text,
        }
    )


KNOWN = ModelsAndPrices(
    find_model=find_gpu_model, node_price=lambda _, gpus: 100_000 + gpus * 500_000
)


def imported(fake: FakeSlurm | None = None, **more: object) -> ImportedFleet:
    commands = fake or slurm()
    return import_fleet(read_current_setup(commands), inventory(commands), KNOWN, **more)  # type: ignore[arg-type]


def test_nodes_of_one_shape_and_the_same_partitions_are_a_pool() -> None:
    fleet = imported().fleet
    shown = {
        pool.name: ([node.id for node in fleet.nodes if node.pool == pool.name], pool.market.value)
        for pool in fleet.pools
    }
    assert shown == {
        "t4": (["n1", "n2"], "owned"),
        "t4-2": (["n3"], "owned"),
        "cpu": (["c1"], "on-demand"),
    }
    t4 = fleet.pools[0]
    assert t4.labels == {"in-serve": "yes", "in-train": "yes", "slurm.partition": "serve train"}
    assert (t4.gpus_per_node, t4.node_micro_usd_per_hour) == (4, 2_100_000)


def test_accounts_become_tenants_with_weights_and_quotas() -> None:
    tenants = {one.name: one for one in imported().tenants}
    assert tenants.keys() == {"lab", "product", "research", "research-jobs", "vision"}
    assert [(tenants[name].parent, tenants[name].weight) for name in ("product", "research")] == [
        ("lab", 2.0),
        ("lab", 3.0),
    ]
    assert not tenants["research"].is_queue and tenants["research-jobs"].is_queue
    key = ("t4-16gb/owned", GPU)
    assert tenants["lab"].quotas[key] == Quota(nominal=8_000)
    assert tenants["product"].quotas[key] == Quota(nominal=0, borrowing_limit=8_000)
    assert tenants["vision"].quotas[key] == Quota(nominal=4_000)
    assert tenants["research"].quotas[key] == Quota(nominal=0)


def test_settings_become_policies() -> None:
    policies = imported().policies
    assert policies.order.share is SharePolicy.FAIR_TREE
    assert policies.order.half_life_ms == 14 * DAY_MS
    assert policies.order.entry_horizon_ms == 0
    assert policies.preemption.minimum_run_ms == 300_000
    assert policies.priority_classes == {"normal": 0, "vision": 1000}
    assert (
        imported(
            slurm(config=CONFIG.replace("REQUEUE", "OFF"))
        ).policies.preemption.searches_per_cycle
        == 0
    )


def test_an_imported_fleet_is_a_valid_fleet_file() -> None:
    cluster = imported()
    file = FleetFile(fleet=cluster.fleet, tenants=cluster.tenants, policies=cluster.policies)
    again = parse_fleet({"fleet.yaml": write_fleet(file)})
    assert again.fleet == cluster.fleet
    assert {one.name: one for one in again.tenants} == {one.name: one for one in cluster.tenants}
    assert again.policies == cluster.policies


def test_a_removed_account_with_jobs_becomes_a_tenant() -> None:
    cluster = imported(used_accounts={"physics", "vision"})
    assert any(one.name == "physics" and one.is_queue for one in cluster.tenants)
    assert any("physics" in note for note in cluster.notes)


def test_jobs_of_the_root_account_have_a_queue() -> None:
    tenants = {one.name: one for one in imported(used_accounts={"root"}).tenants}
    assert tenants["root"].parent == "lab" and tenants["root"].is_queue
    assert "root" not in {one.name for one in imported().tenants}


def test_a_gpu_type_that_is_not_a_model_must_be_mapped() -> None:
    with pytest.raises(UserError) as unknown:
        imported(slurm(kind="fast"))
    assert "--gpu fast=MODEL" in unknown.value.fix


def test_a_slurm_without_accounting_is_refused() -> None:
    with pytest.raises(UserError) as refused:
        read_current_setup(slurm(config=CONFIG.replace("slurmdbd", "none")))
    assert refused.value.code == "slurm-without-accounts"


def test_without_limits_there_are_no_quotas() -> None:
    commands = slurm()
    present: CurrentSetup = read_current_setup(commands)
    plain = {name: replace(one, most={}) for name, one in present.accounts.items()}
    free = replace(present, accounts=plain, qos={})
    cluster = import_fleet(free, inventory(commands), KNOWN)
    assert not any(one.quotas for one in cluster.tenants)
