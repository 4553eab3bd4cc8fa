"""Who is next: lines of one level of urgency, the most deserving first.

Between tenants a tournament over the tree: every tenant keeps its children in a heap by how much of
their share they have had, and the winner is found by following the tops. A start changes the standing
of one path only, so the next winner costs O(depth), whatever the number of queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from bursar.core.line import KindLine, Rank

Standing = tuple[float, ...]
"""How much a tenant has had of its share; lower is more deserving."""

TOP: Final = ""
"""Stands above all roots of the tenant forest."""


class Order(Protocol):
    """Lines in order, with the order changing as jobs start."""

    def next(self) -> KindLine | None:
        """The line whose head is most deserving now."""

    def started(self) -> None:
        """The head of the line last returned has been dealt with; its tenant has had more."""

    def drop(self) -> None:
        """Nothing more can start from the line last returned in this cycle."""


class LoneOrder:
    """One line alone has nobody to be compared with."""

    __slots__ = ("_line",)

    def __init__(self, line: KindLine) -> None:
        self._line: KindLine | None = line

    def next(self) -> KindLine | None:
        return self._line

    def started(self) -> None:
        if self._line is not None and self._line.head() is None:
            self._line = None

    def drop(self) -> None:
        self._line = None


class LineHeap:
    """Lines by the rank of their heads."""

    __slots__ = ("_heap",)

    def __init__(self, lines: Iterable[KindLine]) -> None:
        self._heap: list[tuple[Rank, KindLine]] = []
        for line in lines:
            head = line.head()
            if head is not None:
                self._heap.append((head.rank, line))
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def first(self) -> KindLine:
        return self._heap[0][1]

    def advance(self) -> None:
        """The first line has another head now, or none."""
        line = self._heap[0][1]
        head = line.head()
        if head is None:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (head.rank, line))

    def drop(self) -> None:
        heapq.heappop(self._heap)


class FlatOrder:
    """All lines by the rank of their heads, whoever's they are.

    Sorted once; a line whose head started joins again with its next head through a small heap, so that
    a cycle in which little starts costs one sort.
    """

    def __init__(self, lines: Iterable[KindLine]) -> None:
        ranked = [(head.rank, line) for line in lines if (head := line.head()) is not None]
        self._sorted = sorted(ranked, reverse=True)
        self._again: list[tuple[Rank, KindLine]] = []
        self._from_again = False

    def next(self) -> KindLine | None:
        if not self._again:
            self._from_again = False
            return self._sorted[-1][1] if self._sorted else None
        self._from_again = not self._sorted or self._again[0] < self._sorted[-1]
        return self._again[0][1] if self._from_again else self._sorted[-1][1]

    def started(self) -> None:
        line = self._pop()
        head = line.head()
        if head is not None:
            heapq.heappush(self._again, (head.rank, line))

    def drop(self) -> None:
        self._pop()

    def _pop(self) -> KindLine:
        if self._from_again:
            return heapq.heappop(self._again)[1]
        return self._sorted.pop()[1]


class ShareOrder:
    """A tournament of tenants by standing; inside a queue by the rank of the heads."""

    def __init__(
        self,
        lines: Iterable[KindLine],
        parents: Mapping[str, str | None],
        standing: Callable[[str], Standing],
    ) -> None:
        self._parents = parents
        self._standing = standing
        by_queue: dict[str, list[KindLine]] = {}
        for line in lines:
            by_queue.setdefault(line.kind.queue, []).append(line)
        self._queues = {queue: LineHeap(found) for queue, found in by_queue.items()}
        self._children: dict[str, list[tuple[Standing, str]]] = {}
        self._enter_all(queue for queue, heap in self._queues.items() if heap)
        self._path: list[str] = []

    def _enter_all(self, queues: Iterable[str]) -> None:
        entered: set[str] = {TOP}
        for queue in queues:
            tenant = queue
            while tenant not in entered:
                entered.add(tenant)
                parent = self._parents.get(tenant) or TOP
                entry = (self._standing(tenant), tenant)
                self._children.setdefault(parent, []).append(entry)
                tenant = parent
        for heap in self._children.values():
            heapq.heapify(heap)

    def next(self) -> KindLine | None:
        tenant = TOP
        self._path = [TOP]
        while (rivals := self._children.get(tenant)) is not None:
            if not rivals:
                return None
            tenant = rivals[0][1]
            self._path.append(tenant)
        return self._queues[tenant].first() if tenant != TOP else None

    def started(self) -> None:
        queue = self._path[-1]
        self._queues[queue].advance()
        gone = not self._queues[queue]
        for parent, tenant in zip(self._path[-2::-1], self._path[:0:-1], strict=True):
            rivals = self._children[parent]
            if gone:
                heapq.heappop(rivals)
                gone = not rivals
            else:
                heapq.heapreplace(rivals, (self._standing(tenant), tenant))

    def drop(self) -> None:
        queue = self._path[-1]
        self._queues[queue].drop()
        if self._queues[queue]:
            return
        for parent in self._path[-2::-1]:
            rivals = self._children[parent]
            heapq.heappop(rivals)
            if rivals:
                return
