"""Places a gang: several tasks or groups, GPU fractions, topology, spread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bursar.core.nodes.device import DeviceKey
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import NODE_LEVEL
from bursar.core.nodes.slices import choose_instance, layout_for
from bursar.core.placement.node_scores import best_gpu, scorer_for
from bursar.core.placement.pool_fit import Counts, PoolFit
from bursar.core.placement.search import (
    Allocation,
    Search,
    count_fitting_tasks,
    fits_cpu_memory_disk,
    fractional_task,
    occupy_whole,
)
from bursar.core.topology.place import place
from bursar.core.topology.request import TopologyRequest
from bursar.core.topology.result import TopologyMiss
from bursar.model.jobs.attempt import ShareUse, SliceUse, Task
from bursar.model.jobs.job import MigSlice, MpsShare, Spread, TaskGroup, WholeGpus
from bursar.model.tenants.policy import LEARNING_PLACEMENTS


class GangPlacer:
    """Places all groups of a gang in one pool.

    Groups with GPUs go first, the widest first; groups without GPUs go on the same nodes where they can, so
    that a launcher runs next to its workers.
    """

    def __init__(self, fit: PoolFit, search: Search) -> None:
        self.fit = fit
        self.pool = fit.pool
        self.search = search
        self.constraints = fit.plan.shape.constraints
        self.tasks: list[Task] = []
        self.in_spread: dict[str, int] = {}
        self.spread_before: dict[str, int] = {}
        self.domain: str | None = None

    def place(self, counts: Counts) -> Allocation | None:
        """Place all groups; None, with nothing changed, if they do not fit."""
        if not self._must_choose_domain():
            return self._place_all(counts)
        for domain in self.domains():
            self.domain = domain
            allocation = self._place_all(counts)
            if allocation is not None:
                return allocation
        return None

    def place_in(
        self, counts: Counts, domain: str | None, other_part: GangPlacer | None
    ) -> Allocation | None:
        """Place all groups in one domain (None: anywhere), after the other part of the gang."""
        self.domain = domain
        self.spread_before = {} if other_part is None else other_part.in_spread
        return self._place_all(counts)

    def _must_choose_domain(self) -> bool:
        """Whether a required domain must hold more than one group of whole GPUs.

        The topology rules place only such a group. For anything else one domain after another is tried.
        """
        topology = self.constraints.topology
        if topology is None or topology.required is None:
            return False
        groups = self.fit.plan.groups
        return len(groups) > 1 or not _whole(groups[0]) or self.constraints.spread is not None

    def domains(self) -> list[str]:
        """The domains of the required level, fullest first."""
        free: dict[str, tuple[int, int]] = {}
        for node in self.pool.tightest_first(0):
            domain = self._domain_of(node)
            gpus, cpu_milli = free.get(domain, (0, 0))
            free[domain] = (gpus + node.free_gpus, cpu_milli + node.cpu_free_milli)
        return sorted(free, key=lambda domain: (free[domain], domain))

    def _domain_of(self, node: NodeState) -> str:
        topology = self.constraints.topology
        assert topology is not None and topology.required is not None
        if topology.required == NODE_LEVEL:
            return node.id
        levels = self.pool.levels[: self.pool.levels.index(topology.required) + 1]
        return "/".join(node.labels.get(level, "") for level in levels)

    def _place_all(self, counts: Counts) -> Allocation | None:
        mark = self.search.journal.mark
        self.search.partitions.clear()
        self.tasks.clear()
        self.in_spread = dict(self.spread_before)
        sized = [(group, count) for group, count in zip(self.fit.plan.groups, counts, strict=True)]
        sized.sort(key=lambda one: (-_whole(one[0]), one[0].gpu is None, one[0].name))
        for group, count in sized:
            if count and not self._place_group(group, count):
                self.search.journal.roll_back(mark)
                return None
        return self._allocation()

    def _allocation(self) -> Allocation:
        if self.constraints.apart is not None:
            for node_id in sorted({task.node for task in self.tasks}):
                self.search.journal.tag(self.pool.by_id[node_id], self.constraints.apart, 1)
        order = {group.name: index for index, group in enumerate(self.fit.plan.groups)}
        tasks = sorted(self.tasks, key=lambda task: (order[task.group], task.node, task.gpus))
        return Allocation(tasks=tuple(tasks), partitions=tuple(self.search.partitions))

    def _place_group(self, group: TaskGroup, count: int) -> bool:
        match group.gpu:
            case WholeGpus(count=gpus):
                return self._place_whole(group, count, gpus)
            case None:
                return self._place_plain_tasks(group, count)
            case _:
                return all(self._place_fractional(group) for _ in range(count))

    # -- whole GPUs ------------------------------------------------------------------------------

    def _place_whole(self, group: TaskGroup, count: int, gpus: int) -> bool:
        at_most = self.pool.max_tasks_by_gpus(gpus)
        if at_most < count:
            self.search.tasks_that_fit = at_most
            return False
        split = self._split(group, count)
        if split is None:
            return False
        for node, part in split:
            self.tasks.append(occupy_whole(self.pool, node, group, part, self.search))
        return True

    def _split(self, group: TaskGroup, count: int) -> list[tuple[NodeState, int]] | None:
        """The number of tasks for each node."""
        topology = self.constraints.topology
        if topology is None and self.constraints.spread is None:
            single = self._one_node(group, count)
            if single is not None:
                return [(single, count)]
        if self.constraints.spread is not None:
            return self._fill(self.pool.tightest_first(_whole(group)), group, count)
        if topology is not None or len(self.pool.levels) > 1:
            return self._by_topology(group, count)
        return self._widest_first(group, count)

    def _one_node(self, group: TaskGroup, count: int) -> NodeState | None:
        gpus = _whole(group) * count
        if self.pool.spec.gpus_per_node and gpus > self.pool.spec.gpus_per_node:
            return None
        for node in self.pool.tightest_first(gpus if self.pool.spec.gpus_per_node else 0):
            if fits_cpu_memory_disk(node, group, count) and self._allows(node):
                return node
        return None

    def _widest_first(self, group: TaskGroup, count: int) -> list[tuple[NodeState, int]] | None:
        """Use few nodes: fill the emptiest, and put the rest on the tightest fit."""
        split: list[tuple[NodeState, int]] = []
        left = count
        for node in self.pool.emptiest_first(_whole(group)):
            part = self._tasks_on(node, group, left)
            if part == left and split:
                node = self._tightest_for(group, left, {used.id for used, _ in split}) or node
            if part:
                split.append((node, part))
                left -= part
            if not left:
                return split
        self.search.tasks_that_fit = count - left
        return None

    def _tightest_for(self, group: TaskGroup, count: int, used: set[str]) -> NodeState | None:
        for node in self.pool.tightest_first(_whole(group) * count):
            if node.id not in used and self._tasks_on(node, group, count) == count:
                return node
        return None

    def _fill(
        self, nodes: Iterable[NodeState], group: TaskGroup, count: int
    ) -> list[tuple[NodeState, int]] | None:
        """Fill nodes in order, with at most the spread's limit of tasks in each of its domains."""
        split: list[tuple[NodeState, int]] = []
        left = count
        for node in nodes:
            part = self._tasks_on(node, group, min(left, self._spread_left(node)))
            if part:
                split.append((node, part))
                self._count_spread(node, part)
                left -= part
            if not left:
                return split
        self.search.tasks_that_fit = count - left
        return None

    def _spread_left(self, node: NodeState) -> int:
        """How many more tasks of the job may go to the node's domain of the spread's level."""
        spread = self.constraints.spread
        if spread is None:
            return 1 << 30
        return spread.max_tasks - self.in_spread.get(_spread_domain(spread, node), 0)

    def _count_spread(self, node: NodeState, tasks: int) -> None:
        spread = self.constraints.spread
        if spread is not None:
            domain = _spread_domain(spread, node)
            self.in_spread[domain] = self.in_spread.get(domain, 0) + tasks

    def _by_topology(self, group: TaskGroup, count: int) -> list[tuple[NodeState, int]] | None:
        """The smallest domain that holds the gang, by the topology rules."""
        counts: dict[str, int] = {}
        for node in self.pool.tightest_first(_whole(group)):
            part = self._tasks_on(node, group, count)
            if part:
                counts[node.id] = part
        assignment = place(self.pool.tree_of(counts), self._request(count), counts)
        if isinstance(assignment, TopologyMiss):
            self.search.tasks_that_fit = assignment.tasks_fit
            return None
        return [(self.pool.by_id[part.leaf], part.tasks) for part in assignment]

    def _request(self, count: int) -> TopologyRequest:
        topology = self.constraints.topology
        if topology is None:
            return TopologyRequest(count=count, preferred=self.pool.levels[-2])
        return TopologyRequest(
            count=count,
            required=topology.required,
            preferred=topology.preferred,
            layers=topology.layers,
        )

    # -- tasks without GPUs, and GPU fractions ---------------------------------------------------

    def _place_plain_tasks(self, group: TaskGroup, count: int) -> bool:
        """Use the gang's nodes first, then those with the fewest free GPUs."""
        spread_out = self.constraints.spread is not None
        nodes = self.pool.tightest_first(0) if spread_out else self._nearest_first(group)
        split = self._fill(nodes, group, count)
        for node, part in split or ():
            self.tasks.append(occupy_whole(self.pool, node, group, part, self.search))
        return split is not None

    def _nearest_first(self, group: TaskGroup) -> Iterator[NodeState]:
        near = {task.node for task in self.tasks}
        yield from (self.pool.by_id[node_id] for node_id in sorted(near))
        for node in self.pool.tightest_first(self.pool.least_bucket(0, group.cpu_milli)):
            if node.id not in near:
                yield node

    def _place_fractional(self, group: TaskGroup) -> bool:
        """Place one MIG instance or MPS share on the device the pool's index prefers."""
        match group.gpu:
            case MigSlice(profile=profile):
                keys = self.pool.sliced().slice_candidates(profile)
            case MpsShare() as share:
                keys = self._share_keys(group, share)
            case _:
                return False
        for node_id, gpu in keys:
            node = self.pool.by_id[node_id]
            if (
                not node.is_open
                or not fits_cpu_memory_disk(node, group, 1)
                or not self._allows(node)
            ):
                continue
            if self._spread_left(node) < 1:
                continue
            use = self._use(group, node, gpu)
            if use is not None:
                self._count_spread(node, 1)
                task = fractional_task(group, node, use)
                self.search.journal.occupy(self.pool, task, self.search.holder)
                self.tasks.append(task)
                return True
        self.search.tasks_that_fit = len(self.tasks)
        return False

    def _share_keys(self, group: TaskGroup, share: MpsShare) -> Iterator[DeviceKey]:
        """Devices for an MPS share, in the order of the placement policy."""
        if self.search.policy not in LEARNING_PLACEMENTS:
            yield from self.pool.sliced().share_candidates(share.percent, share.memory_mib)
            return
        scorer = scorer_for(self.search.policy, self.search.mix)
        for node in self.pool.index(scorer).nodes(group):
            gpu = best_gpu(node, group, scorer)
            if gpu is not None:
                yield node.id, gpu

    def _use(self, group: TaskGroup, node: NodeState, gpu: int) -> SliceUse | ShareUse | None:
        """The fraction of a device to take; the device is partitioned first if necessary."""
        device = node.devices[gpu]
        if isinstance(group.gpu, MpsShare):
            if device.layout:
                self.search.partition(self.pool, node, gpu, ())
            share = group.gpu
            return ShareUse(gpu=gpu, percent=share.percent, memory_mib=share.memory_mib)
        assert isinstance(group.gpu, MigSlice) and device.model.mig is not None
        instance = choose_instance(device, group.gpu.profile)
        if instance is None:
            layout = layout_for(device.model.mig, group.gpu.profile, self.search.demand)
            if layout is None:
                return None
            self.search.partition(self.pool, node, gpu, layout)
            instance = choose_instance(device, group.gpu.profile)
        return None if instance is None else SliceUse(gpu=gpu, instance=instance)

    # -- one node --------------------------------------------------------------------------------

    def _tasks_on(self, node: NodeState, group: TaskGroup, most: int) -> int:
        if most <= 0 or not node.is_open or not self._allows(node):
            return 0
        return count_fitting_tasks(node, group, most)

    def _allows(self, node: NodeState) -> bool:
        """Whether labels, anti-affinity, the domain and reservations allow a node."""
        constraints = self.constraints
        if constraints.node_labels and any(
            node.labels.get(key) != value for key, value in constraints.node_labels
        ):
            return False
        if constraints.apart is not None and node.tags.get(constraints.apart, 0):
            return False
        if self.domain is not None and self._domain_of(node) != self.domain:
            return False
        return self.search.allows(node)


def _spread_domain(spread: Spread, node: NodeState) -> str:
    return node.id if spread.level == NODE_LEVEL else node.labels.get(spread.level, "")


def _whole(group: TaskGroup) -> int:
    return group.gpu.count if isinstance(group.gpu, WholeGpus) else 0
