"""The settings of slurm.conf that follow from the fleet: priorities, billing weights, partitions."""

from __future__ import annotations

from decimal import Decimal

from bursar.engines.slurm.governed.desired import DesiredPartition, SlurmSetup
from bursar.engines.slurm.governed.gres_names import GresNames
from bursar.model.fleet.fleet import PARTITION_LABEL, Pool
from bursar.model.tenants.policy import Policies
from bursar.model.units import GIB_MIB, MILLI
from bursar.slurm_text import write_duration, write_hosts

MICRO_PER_BILLING = 1_000
HEADER = """\
# Written by 'bursar render slurm' from the fleet file; edit that file, not this one.
# Changes of PreemptType or SelectType need a restart of slurmctld, others 'scontrol reconfigure'.
"""


def settings_of(policies: Policies, gres: GresNames) -> dict[str, str]:
    """Settings for the order of the fleet: own quota before borrowed, then fair tree, then age."""
    half_life_ms = policies.order.half_life_ms
    kinds = ["gres/gpu", *(f"gres/gpu:{name}" for name in gres.types)] if gres.types else []
    exempt_ms = policies.preemption.minimum_run_ms
    settings = {
        "PriorityType": "priority/multifactor",
        "PriorityFlags": "MAX_TRES",
        "PriorityDecayHalfLife": write_duration(half_life_ms) if half_life_ms else "0",
        "PriorityWeightQOS": "1000000",
        "PriorityWeightFairshare": "100000",
        "PriorityWeightAge": "1000",
        "PriorityWeightJobSize": "0",
        "PriorityWeightPartition": "0",
        "PreemptType": "preempt/qos",
        "PreemptMode": "REQUEUE",
        "PreemptExemptTime": write_duration(exempt_ms) if exempt_ms else "00:00:00",
        "AccountingStorageEnforce": "associations,limits,qos",
    }
    if kinds:
        settings["AccountingStorageTRES"] = ",".join(kinds)
    return settings


class PartitionPlan:
    """Turns pools into partitions."""

    def __init__(self, gres: GresNames, policies: Policies, notes: list[str]) -> None:
        self._gres = gres
        self._policies = policies
        self._notes = notes

    def partitions(self) -> tuple[DesiredPartition, ...]:
        by_name: dict[str, list[Pool]] = {}
        for pool in self._gres.pools:
            for name in partitions_of(pool):
                by_name.setdefault(name, []).append(pool)
        return tuple(
            self._partition(name, pools, is_default=not number)
            for number, (name, pools) in enumerate(by_name.items())
        )

    def _partition(self, name: str, pools: list[Pool], *, is_default: bool) -> DesiredPartition:
        return DesiredPartition(
            name=name,
            nodes=tuple(node for pool in pools for node in self._gres.nodes[pool.name]),
            billing=self._billing(name, pools),
            default_time_ms=self._policies.backfill.unknown_run_time_ms,
            is_default=is_default,
        )

    def _billing(self, name: str, pools: list[Pool]) -> dict[str, str]:
        """A node's price divided by its amount of each resource; with MAX_TRES a job pays its largest share.

        CPU and memory have one weight in a partition: the lowest, so that they never cost more than the
        GPUs of the same node.
        """
        weights: dict[str, str] = {}
        priced = [pool for pool in pools if pool.node_micro_usd_per_hour]
        cpus = [_weight(pool, pool.cpu_milli, MILLI) for pool in priced if pool.cpu_milli]
        memory = [_weight(pool, pool.memory_mib, GIB_MIB) for pool in priced if pool.memory_mib]
        if len({*cpus}) > 1 or len({*memory}) > 1:
            self._notes.append(
                f"partition {name}: its pools differ in price; CPU and memory are charged at the lowest"
            )
        if cpus:
            weights["CPU"] = _write_weight(min(cpus))
        if memory:
            weights["Mem"] = f"{_write_weight(min(memory))}G"
        for pool in priced:
            kind = self._gres.type_of(pool)
            if kind is not None and pool.gpus_per_node:
                weights[f"GRES/gpu:{kind}"] = _write_weight(_weight(pool, pool.gpus_per_node, 1))
        return weights


def partitions_of(pool: Pool) -> tuple[str, ...]:
    """Partitions of a pool's nodes."""
    return tuple(pool.labels.get(PARTITION_LABEL, pool.name).split())


def _weight(pool: Pool, amount: int, unit: int) -> Decimal:
    return Decimal(pool.node_micro_usd_per_hour) * unit / amount / MICRO_PER_BILLING


def _write_weight(weight: Decimal) -> str:
    return f"{weight:.3f}"


def conf_text(setup: SlurmSetup) -> str:
    """The fragment, to be added to slurm.conf or included by it."""
    lines = [f"{key}={value}" for key, value in setup.settings.items()]
    lines += [partition_line(one) for one in setup.partitions]
    return HEADER + "\n".join(lines) + "\n"


def partition_line(partition: DesiredPartition) -> str:
    """A partition as one line of slurm.conf."""
    fields = [f"PartitionName={partition.name}", f"Nodes={write_hosts(partition.nodes)}"]
    if partition.is_default:
        fields.append("Default=YES")
    fields.append("MaxTime=UNLIMITED")
    if partition.default_time_ms is not None:
        fields.append(f"DefaultTime={write_duration(partition.default_time_ms)}")
    if partition.billing:
        weights = ",".join(f"{name}={value}" for name, value in partition.billing.items())
        fields.append(f'TRESBillingWeights="{weights}"')
    return " ".join([*fields, "State=UP"])
