"""The Slurm request of one attempt: nodes, CPUs, memory and devices of each component. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.engines.slurm.commands.inventory import SlurmNode, SlurmPartition
from bursar.model.errors import EngineFault
from bursar.model.jobs.attempt import Task
from bursar.model.units import MILLI, MINUTE_MS
from bursar.ports import StartOrder

SLACK_MINUTES = 5
"""Slurm's time limit is only a backup: the control plane enforces its own first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HetComponent:
    """Nodes with equal requests. Several components make a heterogeneous job."""

    nodes: tuple[str, ...]
    cpus: int
    memory_mib: int
    gres: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The request without the script."""

    name: str
    comment: str
    components: tuple[HetComponent, ...]
    minutes: int
    partition: str = ""
    account: str = ""
    qos: str = ""
    output: str = "/dev/null"
    folder: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOrder:
    """An order as it is stored in its attempt's folder, for submissions, stops and logs."""

    request: JobRequest
    script: str
    gpus: Mapping[str, tuple[int, ...]]
    """The devices assigned to it, by node."""
    tasks: tuple[str, ...]
    """The node of each task, by rank."""
    grace_seconds: int
    stop_signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What a request needs to know about the cluster."""

    nodes: Mapping[str, SlurmNode]
    partitions: tuple[SlurmPartition, ...]
    addresses: Mapping[str, str] = field(default_factory=dict)

    def partition_of(self, nodes: tuple[str, ...], configured: str) -> SlurmPartition | None:
        """The configured partition; else the default or the first that has all of these nodes."""
        if configured:
            return next((one for one in self.partitions if one.name == configured), None)
        fitting = [one for one in self.partitions if set(nodes) <= set(one.nodes) and one.is_up]
        return min(fitting, key=lambda one: (not one.is_default, one.name), default=None)


def no_common_partition(order: StartOrder, facts: ClusterFacts, configured: str) -> str:
    """Why a mixed gang cannot be one Slurm job, or "": all its nodes must be in one partition."""
    placement = order.placement
    if placement.anchors is None:
        return ""
    nodes = tuple(sorted({task.node for task in placement.all_tasks}))
    partition = facts.partition_of(nodes, configured)
    if partition is not None and set(nodes) <= set(partition.nodes):
        return ""
    where = f"partition {configured} does not have" if configured else "no Slurm partition has"
    return (
        f"not started: {where} both the nodes of pool {placement.pool} and those of its anchors, "
        f"{placement.anchors.pool}; put them into one partition, name the partitions of each pool in its "
        "label slurm.partition, or remove anchors_percent"
    )


def components_of(order: StartOrder, nodes: Mapping[str, SlurmNode]) -> tuple[HetComponent, ...]:
    """Requests of the attempt's nodes, grouped by equal amounts; the first node's component is first."""
    by_node: dict[str, list[Task]] = {}
    for task in order.placement.all_tasks:
        by_node.setdefault(task.node, []).append(task)
    by_amounts: dict[tuple[int, int, str], list[str]] = {}
    for node, tasks in by_node.items():
        cpu_milli = sum(task.cpu_milli for task in tasks)
        memory_mib = sum(task.memory_mib for task in tasks)
        cpus = max(1, -(-cpu_milli // MILLI))
        amounts = (cpus, memory_mib, gres_of(tasks, nodes.get(node)))
        by_amounts.setdefault(amounts, []).append(node)
    return tuple(
        HetComponent(nodes=tuple(names), cpus=cpus, memory_mib=memory, gres=gres)
        for (cpus, memory, gres), names in by_amounts.items()
    )


def gres_of(tasks: list[Task], node: SlurmNode | None) -> str:
    """Devices of one node: by name if each device has its own type, else by count."""
    gpus = sorted({gpu for task in tasks for gpu in task.gpus})
    items: list[str] = []
    if gpus:
        named = node.device_types if node is not None else None
        if named is not None:
            items += [f"gpu:{named[gpu]}:1" for gpu in gpus if gpu < len(named)]
        else:
            kinds = {one.kind for one in node.gpus} if node is not None else set()
            kind = f"{kinds.pop()}:" if len(kinds) == 1 and "" not in kinds else ""
            items.append(f"gpu:{kind}{len(gpus)}")
    profiles: dict[str, int] = {}
    for task in tasks:
        for use in task.slices:
            profiles[use.instance.profile] = profiles.get(use.instance.profile, 0) + 1
    items += [
        f"gpu:{_mig_type(profile, node)}:{count}" for profile, count in sorted(profiles.items())
    ]
    shards = sum(_shards(share.percent, node) for task in tasks for share in task.shares)
    if shards:
        items.append(f"shard:{shards}")
    return ",".join(items)


def _mig_type(profile: str, node: SlurmNode | None) -> str:
    for one in node.slices if node is not None else ():
        if one.mig_profile == profile:
            return one.kind
    where = node.name if node is not None else "an unknown node"
    raise EngineFault(
        f"Slurm has no GPU type for MIG profile {profile} on {where}; add it to gres.conf",
        retry_after_seconds=60,
    )


def _shards(percent: int, node: SlurmNode | None) -> int:
    """A percentage of a GPU in shards of this node, rounded up."""
    each = node.shards // max(1, node.gpu_count) if node is not None else 0
    if not each:
        where = node.name if node is not None else "an unknown node"
        raise EngineFault(
            f"Slurm has no shards on {where}; add shard to its Gres in slurm.conf",
            retry_after_seconds=60,
        )
    return max(1, -(-percent * each // 100))


def minutes_of(order: StartOrder, partition: SlurmPartition | None) -> int:
    """Slurm's time limit: the job's own plus slack, at most the partition's."""
    max_minutes = partition.max_minutes if partition is not None else 0
    if order.spec.max_run_ms is None:
        return max_minutes
    grace_minutes = -(-order.recipe.grace_seconds // 60)
    minutes = -(-order.spec.max_run_ms // MINUTE_MS) + grace_minutes + SLACK_MINUTES
    return min(minutes, max_minutes) if max_minutes else minutes
