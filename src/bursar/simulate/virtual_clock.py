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
WHAT: Final = 2
Entry = list[Any]
"""Time, sequence number and item; the item is None once it has happened or was dropped.

A list, not an object: heaps compare and free lists faster, and a run makes a few for each job.
"""


class BudgetCheck(NamedTuple):
    """At this time the budgets of a simulated run are checked."""

    at_ms: int


class VirtualClock:
    """Time that moves only when something happens.

    ``given`` are events from outside (submissions, losses), in order of time. They are read one by one,
    so that a long trace needs memory for live jobs only. So are ``outages``, but only while other events
    are to come: they would never end by themselves.
    """

    __slots__ = (
        "_events_ahead",
        "_given",
        "_given_ms",
        "_heap",
        "_next_given",
        "_next_outage",
        "_outages",
        "_present",
        "_pushed",
        "now_ms",
    )

    def __init__(self, given: Iterable[Event], outages: Iterable[NodeOutage] = ()) -> None:
        self.now_ms = 0
        self._heap: list[Entry] = []
        self._present: deque[Entry] = deque()
        self._pushed = 0
        self._events_ahead = 0
        self._given: Iterator[Event] = iter(given)
        self._next_given: Event | None = None
        self._given_ms = NEVER_MS
        self._draw_given()
        self._outages: Iterator[NodeOutage] = iter(outages)
        self._next_outage = next(self._outages, None)

    def push(self, event: Event) -> Entry:
        """Let an event happen at its time, which must not have passed."""
        at_ms = event.at_ms
        if at_ms < self.now_ms:
            raise BrokenInvariant(f"{event} lies before the present, {self.now_ms} ms")
        self._events_ahead += 1
        return self._enter(at_ms, event)

    def set_timer(self, timer: BudgetCheck) -> None:
        """Return a timer at its time; it is never cancelled, its owner ignores one that is outdated."""
        if timer.at_ms < self.now_ms:
            raise BrokenInvariant(f"{timer} lies before the present, {self.now_ms} ms")
        self._enter(timer.at_ms, timer)

    def _enter(self, at_ms: int, what: Event | BudgetCheck) -> Entry:
        """An item due at once, as a start often is, comes last of its instant and needs no heap."""
        if at_ms == self.now_ms:
            entry: Entry = [at_ms, 0, what]
            self._present.append(entry)
            return entry
        self._pushed += 1
        entry = [at_ms, self._pushed, what]
        heappush(self._heap, entry)
        return entry

    def drop(self, entry: Entry) -> None:
        """Cancel an event that has not happened yet."""
        if entry[WHAT] is not None:
            entry[WHAT] = None
            self._events_ahead -= 1

    @property
    def has_events(self) -> bool:
        """Whether any event is to come, timers aside."""
        return self._next_given is not None or self._events_ahead > 0

    def advance(self, timer_ms: int = NEVER_MS) -> bool:
        """Move to the next event or timer; returns whether there was one."""
        heap, present = self._heap, self._present
        while heap and heap[0][WHAT] is None:
            heappop(heap)
        while present and present[0][WHAT] is None:
            present.popleft()
        at_ms = self.now_ms if present else self._given_ms
        if timer_ms < at_ms:
            at_ms = timer_ms
        if heap and heap[0][AT_MS] < at_ms:
            at_ms = heap[0][AT_MS]
        if self._next_outage is not None and self.has_events:
            at_ms = min(at_ms, self._outage_ms(self._next_outage))
        if at_ms == NEVER_MS:
            return False
        if at_ms < self.now_ms:
            raise BrokenInvariant(f"given events are not in order of time: {at_ms} ms comes late")
        self.now_ms = at_ms
        return True

    def next_due(self) -> Event | BudgetCheck | NodeOutage | None:
        """The next item of this instant: given events, then outages, then pushed events.

        One at a time, because an event may drop or add others of the same instant.
        """
        now_ms = self.now_ms
        if self._given_ms == now_ms:
            given = self._next_given
            self._draw_given()
            return given
        outage = self._next_outage
        if outage is not None and outage.at_ms == now_ms:
            self._next_outage = next(self._outages, None)
            return outage
        heap, present = self._heap, self._present
        while (in_heap := bool(heap) and heap[0][AT_MS] == now_ms) or present:
            entry: Entry = heappop(heap) if in_heap else present.popleft()
            what: Event | BudgetCheck | None = entry[WHAT]
            if what is not None:
                if type(what) is not BudgetCheck:
                    entry[WHAT] = None
                    self._events_ahead -= 1
                return what
        return None

    def _draw_given(self) -> None:
        given = self._next_given = next(self._given, None)
        self._given_ms = NEVER_MS if given is None else given.at_ms

    def _outage_ms(self, outage: NodeOutage | None) -> int:
        """When the next outage begins; those in the past are skipped."""
        while outage is not None and outage.at_ms < self.now_ms:
            outage = self._next_outage = next(self._outages, None)
        return NEVER_MS if outage is None else outage.at_ms
