"""Virtual time: a heap of coming events; the clock jumps from one to the next.

Entries of one instant come out in the order of insertion, so equal inputs give equal runs, byte for byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from bursar.core.state.timers import NEVER_MS
from bursar.model.errors import BrokenInvariant
from bursar.model.event import Event
from bursar.simulate.faults import NodeOutage

AT_MS: Final = 0
ITEM: Final = 2
Entry = list[Any]
"""Time, sequence number and item; the item is None once it has happened or was dropped.

A list, not an object: heaps compare and free lists faster, and a run makes a few for each job.
"""


class BudgetCheck(NamedTuple):
    """At this time the budgets of a simulated run are checked."""

    at_ms: int


class VirtualClock:
    """Time that moves only when something happens.

    ``external`` events (submissions, losses) come in order of time. They are read one by one, so that a
    long trace needs memory for live jobs only. So are ``outages``, but only while other events are due:
    they would never end by themselves.
    """

    __slots__ = (
        "_due_now",
        "_events_ahead",
        "_external",
        "_external_ms",
        "_heap",
        "_next_external",
        "_next_outage",
        "_outages",
        "_pushed",
        "now_ms",
    )

    def __init__(self, external: Iterable[Event], outages: Iterable[NodeOutage] = ()) -> None:
        self.now_ms = 0
        self._heap: list[Entry] = []
        self._due_now: deque[Entry] = deque()
        self._pushed = 0
        self._events_ahead = 0
        self._external: Iterator[Event] = iter(external)
        self._next_external: Event | None = None
        self._external_ms = NEVER_MS
        self._read_external()
        self._outages: Iterator[NodeOutage] = iter(outages)
        self._next_outage = next(self._outages, None)

    def push(self, event: Event) -> Entry:
        """Puts an event on the clock; its time must not have passed."""
        at_ms = event.at_ms
        if at_ms < self.now_ms:
            raise BrokenInvariant(f"{event} is before the current time, {self.now_ms} ms")
        self._events_ahead += 1
        return self._enter(at_ms, event)

    def set_timer(self, timer: BudgetCheck) -> None:
        """Puts a timer on the clock; it is never cancelled, its owner ignores an outdated one."""
        if timer.at_ms < self.now_ms:
            raise BrokenInvariant(f"{timer} is before the current time, {self.now_ms} ms")
        self._enter(timer.at_ms, timer)

    def _enter(self, at_ms: int, item: Event | BudgetCheck) -> Entry:
        """Adds an item. One that is due now comes last of its instant and needs no heap."""
        if at_ms == self.now_ms:
            entry: Entry = [at_ms, 0, item]
            self._due_now.append(entry)
            return entry
        self._pushed += 1
        entry = [at_ms, self._pushed, item]
        heappush(self._heap, entry)
        return entry

    def drop(self, entry: Entry) -> None:
        """Cancels an event that has not happened yet."""
        if entry[ITEM] is not None:
            entry[ITEM] = None
            self._events_ahead -= 1

    @property
    def has_events(self) -> bool:
        """Whether any event is due now or later, timers aside."""
        return self._next_external is not None or self._events_ahead > 0

    def advance(self, timer_ms: int = NEVER_MS) -> bool:
        """Moves to the next event or timer; returns whether there was one."""
        heap, due_now = self._heap, self._due_now
        while heap and heap[0][ITEM] is None:
            heappop(heap)
        while due_now and due_now[0][ITEM] is None:
            due_now.popleft()
        at_ms = self.now_ms if due_now else self._external_ms
        if timer_ms < at_ms:
            at_ms = timer_ms
        if heap and heap[0][AT_MS] < at_ms:
            at_ms = heap[0][AT_MS]
        if self._next_outage is not None and self.has_events:
            at_ms = min(at_ms, self._outage_ms(self._next_outage))
        if at_ms == NEVER_MS:
            return False
        if at_ms < self.now_ms:
            raise BrokenInvariant(
                f"external events are not in order of time: {at_ms} ms is too late"
            )
        self.now_ms = at_ms
        return True

    def next_due(self) -> Event | BudgetCheck | NodeOutage | None:
        """The next item of this instant: external events, then outages, then pushed events.

        One at a time, because an event may drop or add others of the same instant.
        """
        now_ms = self.now_ms
        if self._external_ms == now_ms:
            external = self._next_external
            self._read_external()
            return external
        outage = self._next_outage
        if outage is not None and outage.at_ms == now_ms:
            self._next_outage = next(self._outages, None)
            return outage
        heap, due_now = self._heap, self._due_now
        while (in_heap := bool(heap) and heap[0][AT_MS] == now_ms) or due_now:
            entry: Entry = heappop(heap) if in_heap else due_now.popleft()
            item: Event | BudgetCheck | None = entry[ITEM]
            if item is not None:
                if type(item) is not BudgetCheck:
                    entry[ITEM] = None
                    self._events_ahead -= 1
                return item
        return None

    def _read_external(self) -> None:
        external = self._next_external = next(self._external, None)
        self._external_ms = NEVER_MS if external is None else external.at_ms

    def _outage_ms(self, outage: NodeOutage | None) -> int:
        """When the next outage begins; those in the past are skipped."""
        while outage is not None and outage.at_ms < self.now_ms:
            outage = self._next_outage = next(self._outages, None)
        return NEVER_MS if outage is None else outage.at_ms
