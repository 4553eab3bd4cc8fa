"""Virtual time: a heap of what will happen. The clock jumps from one entry to the next.

Entries of one instant come out in the order in which they were put in, so equal inputs give equal
runs, byte for byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Final

from bursar.core.alarms import NEVER_MS, Wake
from bursar.model.errors import BrokenInvariant
from bursar.model.event import Event
from bursar.simulate.faults import Outage

AT_MS: Final = 0
WHAT: Final = 2
Entry = list[Any]
"""One thing to come: when, the how-manieth it is, and what; None once it has happened or been dropped.

A list and no object of its own: heaps compare and free lists faster, and a run makes a few for each job.
"""


class Clock:
    """Time that moves only when something happens.

    ``given`` are events known from outside (submissions, losses), in order of time. They are drawn
    one by one, so that a long trace costs memory for what is alive only. ``outages`` are drawn alike,
    but only while anything else is to come: they would never end by themselves.
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

    def __init__(self, given: Iterable[Event], outages: Iterable[Outage] = ()) -> None:
        self.now_ms = 0
        self._heap: list[Entry] = []
        self._present: deque[Entry] = deque()
        self._pushed = 0
        self._events_ahead = 0
        self._given: Iterator[Event] = iter(given)
        self._next_given: Event | None = None
        self._given_ms = NEVER_MS
        self._draw_given()
        self._outages: Iterator[Outage] = iter(outages)
        self._next_outage = next(self._outages, None)

    def push(self, event: Event) -> Entry:
        """Let an event happen at its time, which must not have passed."""
        at_ms = event.at_ms
        if at_ms < self.now_ms:
            raise BrokenInvariant(f"{event} lies before the present, {self.now_ms} ms")
        self._events_ahead += 1
        return self._enter(at_ms, event)

    def set_alarm(self, wake: Wake) -> None:
        """Wake whoever waits at a time; nobody drops an alarm, it is found to be idle."""
        if wake.at_ms < self.now_ms:
            raise BrokenInvariant(f"{wake} lies before the present, {self.now_ms} ms")
        self._enter(wake.at_ms, wake)

    def _enter(self, at_ms: int, what: Event | Wake) -> Entry:
        """What is to happen at once, as a start often is, comes last of its instant and needs no heap."""
        if at_ms == self.now_ms:
            entry: Entry = [at_ms, 0, what]
            self._present.append(entry)
            return entry
        self._pushed += 1
        entry = [at_ms, self._pushed, what]
        heappush(self._heap, entry)
        return entry

    def drop(self, entry: Entry) -> None:
        """The event will not happen after all, if it has not happened yet."""
        if entry[WHAT] is not None:
            entry[WHAT] = None
            self._events_ahead -= 1

    @property
    def has_events(self) -> bool:
        """Whether anything but alarms is to come."""
        return self._next_given is not None or self._events_ahead > 0

    def advance(self, alarm_ms: int = NEVER_MS) -> bool:
        """Go to the next instant at which there is anything, the alarm included; false: nothing is left."""
        heap, present = self._heap, self._present
        while heap and heap[0][WHAT] is None:
            heappop(heap)
        while present and present[0][WHAT] is None:
            present.popleft()
        at_ms = self.now_ms if present else self._given_ms
        if alarm_ms < at_ms:
            at_ms = alarm_ms
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

    def next_due(self) -> Event | Wake | Outage | None:
        """The next thing of this instant: given events, then outages that begin, then what was pushed.

        One at a time: what one event drops or adds within the instant is already respected when the
        next is drawn.
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
            what: Event | Wake | None = entry[WHAT]
            if what is not None:
                if type(what) is not Wake:
                    entry[WHAT] = None
                    self._events_ahead -= 1
                return what
        return None

    def _draw_given(self) -> None:
        given = self._next_given = next(self._given, None)
        self._given_ms = NEVER_MS if given is None else given.at_ms

    def _outage_ms(self, outage: Outage | None) -> int:
        """When the next outage begins; those that nobody was there to see are passed over."""
        while outage is not None and outage.at_ms < self.now_ms:
            outage = self._next_outage = next(self._outages, None)
        return NEVER_MS if outage is None else outage.at_ms
