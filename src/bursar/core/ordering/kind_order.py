"""Orders the backlogs of one urgency level by fair share.

Tenants compete in a tournament over their tree: each has its children in a heap by used share, and the
winner is found by following the tops. A start changes the share keys of one path only, so the next winner
costs O(depth) for any number of queues.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from bursar.core.state.job_record import Backlog, Rank

ShareKey = tuple[float, ...]
"""How much of its share a tenant has used; the lowest goes first."""

TOP: Final = ""
"""The virtual parent of all roots of the tenant forest."""


class KindOrder(Protocol):
    """Backlogs in order; the order changes as jobs start."""

    def next(self) -> Backlog | None:
        """The first backlog in the current order."""

    def started(self) -> None:
        """The head of the last returned backlog has started; its tenant has used more."""

    def drop(self) -> None:
        """Remove the last returned backlog: nothing more can start from it in this cycle."""


class LoneOrder:
    """The order of a single backlog."""

    def __init__(self, backlog: Backlog) -> None:
        self._backlog: Backlog | None = backlog

    def next(self) -> Backlog | None:
        return self._backlog

    def started(self) -> None:
        if self._backlog is not None and self._backlog.head() is None:
            self._backlog = None

    def drop(self) -> None:
        self._backlog = None


class BacklogHeap:
    """Backlogs by the rank of their heads."""

    def __init__(self, backlogs: Iterable[Backlog]) -> None:
        self._heap: list[tuple[Rank, Backlog]] = []
        for backlog in backlogs:
            head = backlog.head()
            if head is not None:
                self._heap.append((head.rank, backlog))
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def first(self) -> Backlog:
        return self._heap[0][1]

    def advance(self) -> None:
        """Update the first backlog, whose head has changed."""
        backlog = self._heap[0][1]
        head = backlog.head()
        if head is None:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (head.rank, backlog))

    def drop(self) -> None:
        heapq.heappop(self._heap)


class FlatOrder:
    """All backlogs by the rank of their heads, regardless of tenant.

    Sorted once; a backlog whose head started returns with its next head through a small heap, so a cycle
    with few starts costs one sort.
    """

    def __init__(self, backlogs: Iterable[Backlog]) -> None:
        ranked = [
            (head.rank, backlog) for backlog in backlogs if (head := backlog.head()) is not None
        ]
        self._sorted = sorted(ranked, reverse=True)
        self._returned: list[tuple[Rank, Backlog]] = []
        self._from_returned = False

    def next(self) -> Backlog | None:
        if not self._returned:
            self._from_returned = False
            return self._sorted[-1][1] if self._sorted else None
        self._from_returned = not self._sorted or self._returned[0] < self._sorted[-1]
        return self._returned[0][1] if self._from_returned else self._sorted[-1][1]

    def started(self) -> None:
        backlog = self._pop()
        head = backlog.head()
        if head is not None:
            heapq.heappush(self._returned, (head.rank, backlog))

    def drop(self) -> None:
        self._pop()

    def _pop(self) -> Backlog:
        if self._from_returned:
            return heapq.heappop(self._returned)[1]
        return self._sorted.pop()[1]


class ShareOrder:
    """A tournament of tenants by share key; inside a queue by the rank of the heads."""

    def __init__(
        self,
        backlogs: Iterable[Backlog],
        parents: Mapping[str, str | None],
        share_key: Callable[[str], ShareKey],
    ) -> None:
        self._parents = parents
        self._share_key = share_key
        by_queue: dict[str, list[Backlog]] = {}
        for backlog in backlogs:
            by_queue.setdefault(backlog.kind.queue, []).append(backlog)
        self._queues = {queue: BacklogHeap(members) for queue, members in by_queue.items()}
        self._children: dict[str, list[tuple[ShareKey, str]]] = {}
        self._enter_all(queue for queue, heap in self._queues.items() if heap)
        self._path: list[str] = []

    def _enter_all(self, queues: Iterable[str]) -> None:
        entered: set[str] = {TOP}
        for queue in queues:
            tenant = queue
            while tenant not in entered:
                entered.add(tenant)
                parent = self._parents.get(tenant) or TOP
                entry = (self._share_key(tenant), tenant)
                self._children.setdefault(parent, []).append(entry)
                tenant = parent
        for heap in self._children.values():
            heapq.heapify(heap)

    def next(self) -> Backlog | None:
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
        is_empty = not self._queues[queue]
        for parent, tenant in zip(self._path[-2::-1], self._path[:0:-1], strict=True):
            rivals = self._children[parent]
            if is_empty:
                heapq.heappop(rivals)
                is_empty = not rivals
            else:
                heapq.heapreplace(rivals, (self._share_key(tenant), tenant))

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
