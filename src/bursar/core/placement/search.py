"""One search for a placement, and the steps that all placements share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bursar.core.journal import Journal
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import PoolState
from bursar.core.nodes.workload_mix import WorkloadMix
from bursar.model.decision import PartitionGpu
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Placement, ShareUse, SliceUse, Task
from bursar.model.jobs.job import TaskGroup, WholeGpus
from bursar.model.tenants.policy import Policies

NO_DEMAND: Final[Mapping[str, int]] = {}
NOTHING_RESERVED: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The tasks of a gang on nodes, already occupied in the search's journal.

    ``placement`` is the same with its pool and price, if cached. ``anchors`` are the tasks of a mixed gang
    in the non-spot pool.
    """

    tasks: tuple[Task, ...]
    partitions: tuple[PartitionGpu, ...] = ()
    placement: Placement | None = None
    anchors: tuple[Task, ...] = ()


class Search:
    """One search for a job's placement, with its expected end and the reservations to respect.

    ``reserved`` maps nodes to the planned start of another job; a job that ends later may not use them, and
    ``met_reservation`` is set if that excluded a node. ``demand`` counts the waiting requests by MIG profile,
    for a useful partition. ``seed`` is for random placement. ``is_last``: no other job follows in the cycle,
    so a plain task need not be occupied. ``lacks_anchors``: a mixed gang fits on spot but not its anchors.
    """

    def __init__(
        self, journal: Journal, mix: WorkloadMix, policies: Policies, *, holder: str, end_ms: int
    ) -> None:
        self.journal = journal
        self.mix = mix
        self.policy = policies.placement
        self.seed = policies.placement_seed
        self.holder = holder
        self.end_ms = end_ms
        self.reserved: Mapping[str, int] = NOTHING_RESERVED
        self.demand: Mapping[str, int] = NO_DEMAND
        self.is_last = False
        self.lacks_anchors = False
        self.met_reservation = False
        self.tasks_that_fit = 0
        self.partitions: list[PartitionGpu] = []

    def allows(self, node: NodeState) -> bool:
        """Whether the job may use a node without delaying a reservation."""
        start_ms = self.reserved.get(node.id)
        if start_ms is None or self.end_ms <= start_ms:
            return True
        self.met_reservation = True
        return False

    def partition(self, pool: PoolState, node: NodeState, gpu: int, layout: Layout) -> None:
        """Partition a vacant GPU; the order is given before the start."""
        self.journal.partition(pool, node, gpu, layout)
        self.partitions.append(PartitionGpu(node=node.id, gpu=gpu, layout=layout))


def fits_cpu_memory_disk(node: NodeState, group: TaskGroup, count: int) -> bool:
    """Whether a node has the CPU, memory and disk for some tasks of a group."""
    return (
        node.cpu_free_milli >= group.cpu_milli * count
        and node.memory_free_mib >= group.memory_mib * count
        and node.disk_free_mib >= group.disk_mib * count
    )


def count_fitting_tasks(node: NodeState, group: TaskGroup, most: int) -> int:
    """How many tasks of a group fit on a node, by GPUs, CPU, memory and disk."""
    if isinstance(group.gpu, WholeGpus):
        most = min(most, node.free_gpus // group.gpu.count)
    if group.cpu_milli:
        most = min(most, node.cpu_free_milli // group.cpu_milli)
    if group.memory_mib:
        most = min(most, node.memory_free_mib // group.memory_mib)
    if group.disk_mib:
        most = min(most, node.disk_free_mib // group.disk_mib)
    return max(0, most)


def first_allowed(nodes: Iterator[NodeState], group: TaskGroup, search: Search) -> NodeState | None:
    """The first node, in the given order, that has everything one task needs."""
    return next(
        (node for node in nodes if fits_cpu_memory_disk(node, group, 1) and search.allows(node)),
        None,
    )


def occupy_whole(
    pool: PoolState, node: NodeState, group: TaskGroup, count: int, search: Search
) -> Task:
    """Occupy a node with some tasks of a group that use whole or no GPUs."""
    wanted = group.gpu.count * count if isinstance(group.gpu, WholeGpus) else 0
    gpus = node.lowest_free_gpus(wanted) if wanted else ()
    if node.emptied:
        for gpu in gpus:
            if node.devices[gpu].layout:
                search.partition(pool, node, gpu, ())
    task = task_on(group, node, count, gpus)
    search.journal.occupy(pool, task, search.holder)
    return task


def task_on(group: TaskGroup, node: NodeState, count: int, gpus: tuple[int, ...]) -> Task:
    """Some tasks of a group on given GPUs of a node."""
    return Task(
        group=group.name,
        node=node.id,
        count=count,
        gpus=gpus,
        cpu_milli=group.cpu_milli * count,
        memory_mib=group.memory_mib * count,
        disk_mib=group.disk_mib * count,
    )


def fractional_task(group: TaskGroup, node: NodeState, use: SliceUse | ShareUse) -> Task:
    """One task with a fraction of one GPU."""
    return Task(
        group=group.name,
        node=node.id,
        count=1,
        slices=(use,) if isinstance(use, SliceUse) else (),
        shares=(use,) if isinstance(use, ShareUse) else (),
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
        disk_mib=group.disk_mib,
    )
