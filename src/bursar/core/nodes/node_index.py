"""Nodes of a pool, ranked for each task shape.

A start changes one node. So the ranking of a shape is updated only for the nodes that changed since its
last use.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bursar.core.nodes.node import NodeState
from bursar.core.nodes.workload_mix import FreeResources, TaskShape, free_on
from bursar.model.jobs.job import TaskGroup

MOST_SHAPE_ORDERS: Final = 256
MOST_CHANGES: Final = 1 << 16
"""A cache that reaches its size is cleared."""

Rank = tuple[int, int]
"""A node's cost for a task, then a tie-breaker; the least is best."""

NodeRank = tuple[int, int, int]
"""A rank, then the node's rank by id."""


class Scorer(Protocol):
    """A placement policy that ranks nodes."""

    @property
    def version(self) -> int:
        """Changes when every rank must be recomputed."""

    def key(self, group: TaskGroup, /) -> TaskShape:
        """What the ranks depend on; groups with one key share a ranking."""

    def rank(self, free: FreeResources, shape: TaskShape, /) -> Rank | None:
        """The cost of a node; None when its CPU or GPUs do not suffice."""

    def gpu_rank(self, free: FreeResources, part: int, shape: TaskShape, /) -> int:
        """The cost of a GPU with this free fraction for a share."""


@dataclass(slots=True)
class _ShapeOrder:
    """The nodes with capacity for one shape, best first, as of a position in the change log."""

    ranks: list[NodeRank] = field(default_factory=list)
    rank_of: dict[int, NodeRank] = field(default_factory=dict)
    position: int = 0


class NodeIndex:
    """The nodes of a pool by rank, one ranking for each requested shape."""

    def __init__(self, nodes: Sequence[NodeState], scorer: Scorer) -> None:
        """``nodes`` are sorted by their ``rank``, as in a pool."""
        self._nodes = nodes
        self.scorer = scorer
        self._version = scorer.version
        self._free: list[FreeResources | None] = [None] * len(nodes)
        self._orders: dict[TaskShape, _ShapeOrder] = {}
        self._changes: list[int] = []

    def note(self, node: NodeState) -> None:
        """Must be called after every change of a node's free capacity or openness."""
        if len(self._changes) >= MOST_CHANGES:
            self._forget()
        self._free[node.rank] = None
        self._changes.append(node.rank)

    def best_first(self, shape: TaskShape) -> list[NodeRank]:
        """Open nodes with CPU and a GPU for a task, best first, as they are now.

        The caller checks everything else, GPU memory included.
        """
        return self._order_for(shape).ranks

    def rank(self, node: NodeState, shape: TaskShape) -> NodeRank | None:
        """The rank of one node."""
        return self._rank(node.rank, shape)

    def nodes(self, group: TaskGroup) -> Iterator[NodeState]:
        """The nodes themselves, best first."""
        for rank in self.best_first(self.scorer.key(group)):
            yield self._nodes[rank[-1]]

    def _order_for(self, shape: TaskShape) -> _ShapeOrder:
        """The ranking of a shape, brought up to date."""
        if self._version != self.scorer.version:
            self._version = self.scorer.version
            self._forget()
        order = self._orders.get(shape)
        if order is None:
            if len(self._orders) >= MOST_SHAPE_ORDERS:
                self._forget()
            order = self._orders[shape] = self._new_order(shape)
            order.position = len(self._changes)
        elif order.position < len(self._changes):
            changes = self._changes[order.position :]
            for at in sorted(set(changes)) if len(changes) > 1 else changes:
                self._move(order, at, shape)
            order.position = len(self._changes)
        return order

    def _new_order(self, shape: TaskShape) -> _ShapeOrder:
        order = _ShapeOrder()
        known: dict[FreeResources, Rank | None] = {}
        rank_of = order.rank_of
        for at, free in enumerate(self._free):
            node = self._nodes[at]
            if not node.up or node.avoided or node.closed_for is not None:
                continue
            if free is None:
                free = self._free_on(at)
            if free in known:
                rank = known[free]
            else:
                rank = known[free] = self.scorer.rank(free, shape)
            if rank is not None:
                rank_of[at] = (*rank, at)
        order.ranks = sorted(order.rank_of.values())
        return order

    def _move(self, order: _ShapeOrder, at: int, shape: TaskShape) -> None:
        before = order.rank_of.get(at)
        now = self._rank(at, shape)
        if now == before:
            return
        if before is not None:
            del order.ranks[bisect_left(order.ranks, before)]
        if now is not None:
            insort(order.ranks, now)
            order.rank_of[at] = now
        else:
            del order.rank_of[at]

    def _rank(self, at: int, shape: TaskShape) -> NodeRank | None:
        node = self._nodes[at]
        if not node.up or node.avoided or node.closed_for is not None:
            return None
        free = self._free[at]
        if free is None:
            free = self._free_on(at)
        rank = self.scorer.rank(free, shape)
        return None if rank is None else (*rank, at)

    def _free_on(self, at: int) -> FreeResources:
        free = self._free[at]
        if free is None:
            free = self._free[at] = free_on(self._nodes[at])
        return free

    def _forget(self) -> None:
        """Clear all rankings; free amounts of unchanged nodes stay cached."""
        self._orders = {}
        self._changes = []
