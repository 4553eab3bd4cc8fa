"""Nodes of a pool in the order in which each shape of task prefers them.

A start changes one node. So instead of looking at all nodes again, a shape that is asked for looks at
those changed since it was asked for last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from bursar.core.mix import Free, TaskShape, free_on
from bursar.core.node import NodeState
from bursar.model.job import TaskGroup

MOST_LINES: Final = 256
MOST_CHANGES: Final = 1 << 16
"""Caches that reach these sizes start anew."""

Rank = tuple[int, int]
"""How bad a node is for a task, then what breaks ties between nodes; least is best."""

NodeRank = tuple[int, int, int]
"""A rank, then the node's rank by id."""


class Scorer(Protocol):
    """A placement policy's opinion of nodes."""

    @property
    def version(self) -> int:
        """Changes when every rank has to be worked out anew."""

    def key(self, group: TaskGroup, /) -> TaskShape:
        """What of a task the ranks depend on: groups with one key share their order of nodes."""

    def rank(self, free: Free, shape: TaskShape, /) -> Rank | None:
        """How bad a node would be; None when its CPU or GPUs have no room."""

    def gpu_rank(self, free: Free, part: int, shape: TaskShape, /) -> int:
        """How bad a GPU of which so much is free would be for a share."""


class _Line:
    """The nodes with room for one shape, best first, as of a position in the log of changes."""

    __slots__ = ("order", "position", "rank_of")

    def __init__(self) -> None:
        self.order: list[NodeRank] = []
        self.rank_of: dict[int, NodeRank] = {}
        self.position = 0


class NodeIndex:
    """The nodes of a pool by rank, one order for each shape that is asked for."""

    __slots__ = ("_changes", "_free", "_lines", "_nodes", "_version", "scorer")

    def __init__(self, nodes: Sequence[NodeState], scorer: Scorer) -> None:
        """``nodes`` stand at their ``rank``, as they do in a pool."""
        self._nodes = nodes
        self.scorer = scorer
        self._version = scorer.version
        self._free: list[Free | None] = [None] * len(nodes)
        self._lines: dict[TaskShape, _Line] = {}
        self._changes: list[int] = []

    def note(self, node: NodeState) -> None:
        """Must be called after every change of a node: of its room, and of whether it is open."""
        if len(self._changes) >= MOST_CHANGES:
            self._forget()
        self._free[node.rank] = None
        self._changes.append(node.rank)

    def best_first(self, shape: TaskShape) -> list[NodeRank]:
        """Open nodes with CPU and a GPU for a task, best first, as they are now.

        Everything else that is asked of a node is the caller's to check, and the memory of the GPU
        as well.
        """
        return self._line(shape).order

    def rank(self, node: NodeState, shape: TaskShape) -> NodeRank | None:
        """The rank of one node."""
        return self._rank(node.rank, shape)

    def nodes(self, group: TaskGroup) -> Iterator[NodeState]:
        """The nodes themselves, best first."""
        for rank in self.best_first(self.scorer.key(group)):
            yield self._nodes[rank[-1]]

    def _line(self, shape: TaskShape) -> _Line:
        """The line of a shape, with every node where it belongs now."""
        if self._version != self.scorer.version:
            self._version = self.scorer.version
            self._forget()
        line = self._lines.get(shape)
        if line is None:
            if len(self._lines) >= MOST_LINES:
                self._forget()
            line = self._lines[shape] = self._new_line(shape)
            line.position = len(self._changes)
        elif line.position < len(self._changes):
            changes = self._changes[line.position :]
            for at in sorted(set(changes)) if len(changes) > 1 else changes:
                self._move(line, at, shape)
            line.position = len(self._changes)
        return line

    def _new_line(self, shape: TaskShape) -> _Line:
        line = _Line()
        known: dict[Free, Rank | None] = {}
        ranks = line.rank_of
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
                ranks[at] = (*rank, at)
        line.order = sorted(line.rank_of.values())
        return line

    def _move(self, line: _Line, at: int, shape: TaskShape) -> None:
        before = line.rank_of.get(at)
        now = self._rank(at, shape)
        if now == before:
            return
        if before is not None:
            del line.order[bisect_left(line.order, before)]
        if now is not None:
            insort(line.order, now)
            line.rank_of[at] = now
        else:
            del line.rank_of[at]

    def _rank(self, at: int, shape: TaskShape) -> NodeRank | None:
        node = self._nodes[at]
        if not node.up or node.avoided or node.closed_for is not None:
            return None
        free = self._free[at]
        if free is None:
            free = self._free_on(at)
        rank = self.scorer.rank(free, shape)
        return None if rank is None else (*rank, at)

    def _free_on(self, at: int) -> Free:
        free = self._free[at]
        if free is None:
            free = self._free[at] = free_on(self._nodes[at])
        return free

    def _forget(self) -> None:
        """Start anew; what is free on unchanged nodes is still known."""
        self._lines = {}
        self._changes = []
