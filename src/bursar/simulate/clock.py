"""Virtual time: a heap of what will happen. The clock jumps from one entry to the next.

Entries of one instant come out in the order in which they were put in, so equal inputs give equal
runs, byte for byte.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from bursar.core.alarms import Wake
from bursar.model.errors import BrokenInvariant
from bursar.model.event import Event
from bursar.simulate.faults import Outage

NEVER_MS = 1 << 62


class Entry:
    """One thing to come, until it is ``gone``: it has happened, or will not happen after all."""

    __slots__ = ("gone", "what")

    def __init__(self, what: Event | Wake) -> None:
        self.what = what
        self.gone = False


class Clock:
    """Time that moves only when something happens.

    ``given`` are events known from outside (submissions, losses), in order of time. They are drawn
    one by one, so that a long trace costs memory for what is alive only. ``outages`` are drawn alike,
    but only while anything else is to come: they would never end by themselves.
    """

    __slots__ = (
        "_events_ahead",
        "_given",
        "_heap",
        "_next_given",
        "_next_outage",
        "_outages",
        "_pushed",
        "now_ms",
    )

    def __init__(self, given: Iterable[Event], outages: Iterable[Outage] = ()) -> None:
        self.now_ms = 0
        self._heap: list[tuple[int, int, Entry]] = []
        self._pushed = 0
        self._events_ahead = 0
        self._given: Iterator[Event] = iter(given)
        self._next_given = next(self._given, None)
        self._outages: Iterator[Outage] = iter(outages)
        self._next_outage = next(self._outages, None)

    def push(self, what: Event | Wake) -> Entry:
        """Let something happen at its time, which must not have passed."""
        if what.at_ms < self.now_ms:
            raise BrokenInvariant(f"{what} lies before the present, {self.now_ms} ms")
        entry = Entry(what)
        self._pushed += 1
        self._events_ahead += not isinstance(what, Wake)
        heapq.heappush(self._heap, (what.at_ms, self._pushed, entry))
        return entry

    def drop(self, entry: Entry) -> None:
        """It will not happen after all, if it has not happened yet."""
        if not entry.gone:
            entry.gone = True
            self._events_ahead -= not isinstance(entry.what, Wake)

    @property
    def has_events(self) -> bool:
        """Whether anything but alarms is to come."""
        return self._next_given is not None or self._events_ahead > 0

    def advance(self) -> bool:
        """Go to the next instant at which there is anything; false when nothing is left."""
        at_ms = self._next_ms()
        if at_ms is None:
            return False
        if at_ms < self.now_ms:
            raise BrokenInvariant(f"given events are not in order of time: {at_ms} ms comes late")
        self.now_ms = at_ms
        return True

    def due(self) -> Iterator[Event | Wake | Outage]:
        """Everything of this instant: given events, then outages that begin, then what was pushed.

        One at a time: what one event drops or adds within the instant is already respected when the
        next is drawn.
        """
        while self._next_given is not None and self._next_given.at_ms == self.now_ms:
            given, self._next_given = self._next_given, next(self._given, None)
            yield given
        while self._next_outage is not None and self._next_outage.at_ms == self.now_ms:
            outage, self._next_outage = self._next_outage, next(self._outages, None)
            yield outage
        heap = self._heap
        while heap and heap[0][0] == self.now_ms:
            entry = heapq.heappop(heap)[2]
            if not entry.gone:
                self.drop(entry)
                yield entry.what

    def _next_ms(self) -> int | None:
        heap = self._heap
        while heap and heap[0][2].gone:
            heapq.heappop(heap)
        times = [heap[0][0]] if heap else []
        if self._next_given is not None:
            times.append(self._next_given.at_ms)
        if self._next_outage is not None and self.has_events:
            times.append(self._outage_ms(self._next_outage))
        return min(times, default=None)

    def _outage_ms(self, outage: Outage | None) -> int:
        """When the next outage begins; those that nobody was there to see are passed over."""
        while outage is not None and outage.at_ms < self.now_ms:
            outage = self._next_outage = next(self._outages, None)
        return NEVER_MS if outage is None else outage.at_ms
