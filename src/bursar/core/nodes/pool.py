"""The nodes of a pool, indexed by what is free on them.

A node is in the bucket of its free GPUs (of its free CPU where the pool has no GPUs), so the tightest
node that fits is found without a scan. Every node that gains capacity is appended to the ``freed`` log:
a shape that found no node need only check the nodes freed since.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from bursar.core.nodes.node import NodeState
from bursar.core.nodes.node_index import NodeIndex, Scorer
from bursar.core.nodes.slices import SlicePool
from bursar.core.topology.tree import Leaf, TopologyTree
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Task

CPU_BUCKETS: Final = 64
NODE_LEVEL: Final = "node"
"""The narrowest topology level: one node."""
LOG_LIMIT: Final = 1 << 16
OUT_OF_INDEX: Final = -1


class PoolState:
    """A pool's nodes and the indexes over them.

    ``position`` is where the log of freed nodes ends now, ``changes`` how often anything has changed.
    ``interruptions_per_million_hours`` combines the declared and the observed rate (``spot_history.py``).
    """

    def __init__(self, spec: Pool, topology_levels: tuple[str, ...] = ()) -> None:
        self.spec = spec
        self._by_gpus = spec.gpus_per_node > 0
        self.interruptions_per_million_hours = spec.interruptions_per_million_hours
        self.levels = (*topology_levels, NODE_LEVEL)
        self._tree: TopologyTree | None = None
        self._index: NodeIndex | None = None
        self.changes = 0
        self.nodes: list[NodeState] = []
        self.by_id: dict[str, NodeState] = {}
        self.buckets: list[list[int]] = [[]]
        self.bucket_of: list[int] = []
        self.freed: list[int] = []
        self.freed_before = 0
        self.position = 0
        self.ends: list[tuple[int, str]] = []
        self.slices: SlicePool | None = None

    # -- membership ------------------------------------------------------------------------------

    def set_nodes(self, nodes: list[NodeState]) -> None:
        """Rank nodes by id, so that decisions do not depend on the order in which they joined."""
        self.nodes = sorted(nodes, key=lambda node: node.id)
        self.by_id = {node.id: node for node in self.nodes}
        size = self.spec.gpus_per_node if self.spec.gpus_per_node else CPU_BUCKETS
        self.buckets = [[] for _ in range(size + 1)]
        self.bucket_of = [OUT_OF_INDEX] * len(self.nodes)
        self.slices = None
        self._tree = None
        self._index = None
        self.freed_before += len(self.freed) + len(self.nodes)
        self.position = self.freed_before
        self.freed = []
        for rank, node in enumerate(self.nodes):
            node.rank = rank
            self.reindex(node)

    def set_price(self, node_micro_usd_per_hour: int) -> None:
        """Set the price of a node; running attempts keep the price they started with."""
        self.spec = replace(self.spec, node_micro_usd_per_hour=node_micro_usd_per_hour)

    def reindex(self, node: NodeState) -> None:
        """Move a node to the bucket of what is free on it now, or out of the index when closed."""
        self.changes += 1
        if self._index is not None:
            self._index.note(node)
        if not node.up or node.closed_for is not None or node.avoided:
            new = OUT_OF_INDEX
        elif self._by_gpus:
            new = node.free_gpus
        else:
            new = self._bucket_by_cpu(node)
        rank = node.rank
        old = self.bucket_of[rank]
        if new == old:
            return
        if old != OUT_OF_INDEX:
            bucket = self.buckets[old]
            del bucket[bisect_left(bucket, rank)]
        if new != OUT_OF_INDEX:
            insort(self.buckets[new], rank)
        self.bucket_of[rank] = new

    def _bucket_by_cpu(self, node: NodeState) -> int:
        return max(0, node.cpu_free_milli * CPU_BUCKETS // max(1, self.spec.cpu_milli))

    # -- occupation ------------------------------------------------------------------------------

    def occupy(self, task: Task, holder: str) -> None:
        """Give a task's devices and amounts to a holder and update the indexes."""
        node = self.by_id[task.node]
        node.occupy(task, holder)
        self.reindex(node)
        if self.slices is not None:
            self._update_slices(task)

    def vacate(self, task: Task, holder: str) -> None:
        """Undo ``occupy`` and log the node as freed."""
        node = self.by_id[task.node]
        node.vacate(task, holder)
        self.reindex(node)
        self.note_freed(node)
        if self.slices is not None:
            self._update_slices(task)

    def partition(self, node: NodeState, gpu: int, layout: Layout) -> None:
        """Repartition a vacant GPU."""
        node.devices[gpu].partition(layout)
        node.refresh(gpu)
        self.reindex(node)
        self.note_freed(node)
        if self.slices is not None:
            self.slices.update((node.id, gpu))

    def close(self, node: NodeState, job_id: str) -> None:
        """Reserve a node for one job: no other may start there."""
        node.closed_for = job_id
        self.reindex(node)

    def reopen(self, node: NodeState) -> None:
        """End ``close``."""
        node.closed_for = None
        self.reindex(node)
        self.note_freed(node)

    def set_avoided(self, node: NodeState, avoided: bool) -> None:
        """Set whether a node is used only when no other has capacity."""
        node.avoided = avoided
        self.reindex(node)
        if not avoided:
            self.note_freed(node)

    def note_freed(self, node: NodeState) -> None:
        """Log that a node gained capacity, so that shapes without a node check it."""
        if len(self.freed) >= LOG_LIMIT:
            self.freed_before += len(self.freed)
            self.freed = []
        self.freed.append(node.rank)
        self.position += 1

    def _update_slices(self, task: Task) -> None:
        assert self.slices is not None
        touched = {*task.gpus, *(u.gpu for u in task.slices), *(s.gpu for s in task.shares)}
        for gpu in sorted(touched):
            self.slices.update((task.node, gpu))

    def sliced(self) -> SlicePool:
        """The index over shared GPUs, built when the first job requests a fraction."""
        if self.slices is None:
            model = self.spec.gpu_model
            self.slices = SlicePool(model.mig if model is not None else None)
            for node in self.nodes:
                for gpu, device in enumerate(node.devices):
                    self.slices.add((node.id, gpu), device)
        return self.slices

    def index(self, scorer: Scorer) -> NodeIndex:
        """Nodes as the placement policy ranks them, built on first use."""
        if self._index is None or self._index.scorer is not scorer:
            self._index = NodeIndex(self.nodes, scorer)
        return self._index

    def tree_of(self, node_ids: Collection[str]) -> TopologyTree:
        """These nodes as a tree of topology domains.

        Domains without capacity change no placement, so when few nodes have capacity a small tree of those
        is faster than the tree of all, which is built once and cached.
        """
        if len(node_ids) * 8 < len(self.nodes):
            return TopologyTree(self.levels, [self._leaf(self.by_id[one]) for one in node_ids])
        if self._tree is None:
            self._tree = TopologyTree(self.levels, [self._leaf(node) for node in self.nodes])
        return self._tree

    def _leaf(self, node: NodeState) -> Leaf:
        path = (*(node.labels.get(level, "") for level in self.levels[:-1]), node.id)
        return Leaf(id=node.id, path=path)

    # -- queries ---------------------------------------------------------------------------------

    def freed_since(self, position: int) -> list[int] | None:
        """Ranks of nodes that gained capacity since a position; None: check all nodes."""
        start = position - self.freed_before
        if start < 0 or len(self.freed) - start > len(self.nodes):
            return None
        return sorted(set(self.freed[start:]))

    def least_bucket(self, gpus: int, cpu_milli: int) -> int:
        """The first bucket in which a task of this size can fit."""
        if self._by_gpus:
            return gpus
        return min(CPU_BUCKETS, cpu_milli * CPU_BUCKETS // max(1, self.spec.cpu_milli))

    def tightest_first(self, gpus: int) -> Iterator[NodeState]:
        """Open nodes with at least so many free GPUs, fullest first, then by id."""
        nodes = self.nodes
        for bucket in self.buckets[gpus:]:
            for rank in bucket:
                yield nodes[rank]

    def emptiest_first(self, gpus: int) -> Iterator[NodeState]:
        """Open nodes with at least so many free GPUs, emptiest first, then by id."""
        nodes = self.nodes
        for free in range(len(self.buckets) - 1, gpus - 1, -1):
            for rank in self.buckets[free]:
                yield nodes[rank]

    def free_gpus(self) -> int:
        """Whole GPUs free on open nodes."""
        if not self._by_gpus:
            return 0
        return sum(free * len(bucket) for free, bucket in enumerate(self.buckets))

    def most_free_gpus(self) -> int:
        """The free GPUs of the emptiest open node."""
        if not self._by_gpus:
            return 0
        return next((free for free in range(len(self.buckets) - 1, 0, -1) if self.buckets[free]), 0)

    def max_tasks_by_gpus(self, gpus_per_task: int) -> int:
        """An upper bound of the tasks that fit by GPUs alone, for an early refusal."""
        return sum(
            len(bucket) * (free // gpus_per_task)
            for free, bucket in enumerate(self.buckets)
            if free >= gpus_per_task
        )
