"""The part of slurm.conf that follows from the fleet: who goes first, what a node costs, partitions."""

from __future__ import annotations

from decimal import Decimal

from bursar.engines.slurm.commands.tables import write_duration_minutes, write_hosts
from bursar.engines.slurm.governed.desired import DesiredPartition, SlurmSetup
from bursar.engines.slurm.governed.gres_names import GresNames
from bursar.model.fleet.fleet import PARTITION_LABEL, Pool
from bursar.model.tenants.policy import Policies
from bursar.model.units import GIB_MIB, MILLI

MICRO_PER_BILLING = 1_000
HEADER = """\
# Written by 'bursar render slurm' from the fleet file; write there, not here.
# Changes of PreemptType or SelectType need a restart of slurmctld, the rest 'scontrol reconfigure'.
"""


def settings_of(policies: Policies, gres: GresNames) -> dict[str, str]:
    """Own quota before borrowed, then fair tree, then age: as the fleet's order has it."""
    half_life_ms = policies.order.half_life_ms
    kinds = ["gres/gpu", *(f"gres/gpu:{name}" for name in gres.types)] if gres.types else []
    exempt_ms = policies.preemption.minimum_run_ms
    found = {
        "PriorityType": "priority/multifactor",
        "PriorityFlags": "MAX_TRES",
        "PriorityDecayHalfLife": write_duration_minutes(half_life_ms) if half_life_ms else "0",
        "PriorityWeightQOS": "1000000",
        "PriorityWeightFairshare": "100000",
        "PriorityWeightAge": "1000",
        "PriorityWeightJobSize": "0",
        "PriorityWeightPartition": "0",
        "PreemptType": "preempt/qos",
        "PreemptMode": "REQUEUE",
        "PreemptExemptTime": write_duration_minutes(exempt_ms) if exempt_ms else "00:00:00",
        "AccountingStorageEnforce": "associations,limits,qos",
    }
    if kinds:
        found["AccountingStorageTRES"] = ",".join(kinds)
    return found


class PartitionPlan:
    """Pools as partitions."""

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
            self._partition(name, pools, is_default=not at)
            for at, (name, pools) in enumerate(by_name.items())
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
        """A node's price over what it has of each; with MAX_TRES a job pays its largest part.

        CPU and memory have one weight in a partition: the lowest, so that they never outdo the GPUs that
        they come with.
        """
        found: dict[str, str] = {}
        priced = [pool for pool in pools if pool.node_micro_usd_per_hour]
        cpus = [_weight(pool, pool.cpu_milli, MILLI) for pool in priced if pool.cpu_milli]
        memory = [_weight(pool, pool.memory_mib, GIB_MIB) for pool in priced if pool.memory_mib]
        if len({*cpus}) > 1 or len({*memory}) > 1:
            self._notes.append(
                f"partition {name}: its pools differ in price; CPU and memory are charged at the lowest"
            )
        if cpus:
            found["CPU"] = _written(min(cpus))
        if memory:
            found["Mem"] = f"{_written(min(memory))}G"
        for pool in priced:
            kind = self._gres.type_of(pool)
            if kind is not None and pool.gpus_per_node:
                found[f"GRES/gpu:{kind}"] = _written(_weight(pool, pool.gpus_per_node, 1))
        return found


def partitions_of(pool: Pool) -> tuple[str, ...]:
    """The partitions in which a pool's nodes are."""
    return tuple(pool.labels.get(PARTITION_LABEL, pool.name).split())


def _weight(pool: Pool, amount: int, per_one: int) -> Decimal:
    return Decimal(pool.node_micro_usd_per_hour) * per_one / amount / MICRO_PER_BILLING


def _written(weight: Decimal) -> str:
    return f"{weight:.3f}"


def conf_text(setup: SlurmSetup) -> str:
    """The fragment, to be put into slurm.conf or included by it."""
    lines = [f"{key}={value}" for key, value in setup.settings.items()]
    lines += [partition_line(one) for one in setup.partitions]
    return HEADER + "\n".join(lines) + "\n"


def partition_line(partition: DesiredPartition) -> str:
    """One line of slurm.conf."""
    parts = [f"PartitionName={partition.name}", f"Nodes={write_hosts(partition.nodes)}"]
    if partition.is_default:
        parts.append("Default=YES")
    parts.append("MaxTime=UNLIMITED")
    if partition.default_time_ms is not None:
        parts.append(f"DefaultTime={write_duration_minutes(partition.default_time_ms)}")
    if partition.billing:
        weights = ",".join(f"{name}={value}" for name, value in partition.billing.items())
        parts.append(f'TRESBillingWeights="{weights}"')
    return " ".join([*parts, "State=UP"])
