"""The waiting jobs of one kind, in the order in which they start."""

from __future__ import annotations

from heapq import heappop, heappush

from bursar.core.placement.pool_fit import ShapePlan
from bursar.core.state.job_record import JobRecord, Rank
from bursar.model.jobs.job import JobKind

BacklogKey = tuple[str, int, int]
"""Queue, priority, and the number of the shape's plan."""


class Backlog:
    """Waiting jobs of one kind: a heap with lazy removal, so that a long backlog costs nothing.

    Each time a job joins it gets a new ticket; an entry with an old ticket is stale. While jobs wait, the
    backlog is in ``active``, so that a cycle never visits an empty one.
    """

    __slots__ = ("_active", "_heap", "count", "key", "kind", "members", "plan")

    def __init__(self, kind: JobKind, plan: ShapePlan, active: dict[BacklogKey, Backlog]) -> None:
        self._active = active
        self.kind = kind
        self.plan = plan
        self.key: BacklogKey = (kind.queue, kind.priority, plan.id)
        self.count = 0
        self.members = 0
        self._heap: list[tuple[Rank, int, JobRecord]] = []

    def clear(self) -> None:
        """Drop stale entries, once no job waits here."""
        self._heap.clear()

    def join(self, record: JobRecord) -> None:
        """Add a job that starts waiting."""
        record.ticket += 1
        heappush(self._heap, (record.rank, record.ticket, record))
        self.count += 1
        if self.count == 1:
            self._active[self.key] = self

    def leave(self, record: JobRecord) -> None:
        """Remove a job; its entry is dropped when it reaches the front."""
        record.ticket += 1
        self.count -= 1
        if not self.count:
            del self._active[self.key]
        if len(self._heap) > 2 * self.count + 64:
            self._heap = sorted(entry for entry in self._heap if entry[2].ticket == entry[1])

    def head(self) -> JobRecord | None:
        """The first waiting job."""
        heap = self._heap
        while heap:
            _, ticket, record = heap[0]
            if record.ticket == ticket:
                return record
            heappop(heap)
        return None

    def take(self) -> None:
        """Remove the head for the rest of a draft; ``give_back`` undoes it."""
        heappop(self._heap)

    def give_back(self, record: JobRecord) -> None:
        """Undo ``take``."""
        heappush(self._heap, (record.rank, record.ticket, record))

    def jobs(self) -> list[JobRecord]:
        """All waiting jobs in order; for explanations, never for a cycle."""
        return [record for _, ticket, record in sorted(self._heap) if record.ticket == ticket]
