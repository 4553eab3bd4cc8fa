"""The fleet in memory, brought up to the log event by event, and the moments time alone may matter."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable

from bursar.accounting.budget import NEVER_MS
from bursar.control.live_books import LiveBooks
from bursar.core.alarms import Wake, calls_for_a_cycle, still_matters, wake_again, wakes_after
from bursar.core.alarms_again import wakes_from
from bursar.core.carry import bring_in, carry, redeclare
from bursar.core.spot_alarm import next_look_ms
from bursar.core.state import FleetState
from bursar.model.carried import Carried
from bursar.model.errors import BrokenInvariant
from bursar.model.event import BillReceived, FleetDeclared, LoggedEvent
from bursar.model.plain_values import from_plain, to_plain
from bursar.ports import AttemptRef, Snapshot, StoreReader

BOOKS = "books"
"""Where in a snapshot the ledger stands; snapshots of earlier versions have none."""


class LiveState:
    """``state`` and ``books`` are folds of the log up to ``sequence``. Owned by one thread."""

    def __init__(self) -> None:
        self.sequence = 0
        self.last_event_ms = 0
        self.declared: FleetDeclared | None = None
        self.books = LiveBooks()
        self._state: FleetState | None = None
        self._wakes: list[tuple[int, str, int]] = []
        self._looked_ms = 0
        self.someone_waits = True

    @property
    def state(self) -> FleetState:
        """The fleet. Nothing can be asked before one was declared."""
        if self._state is None:
            raise BrokenInvariant("no fleet has been declared yet")
        return self._state

    @property
    def is_declared(self) -> bool:
        return self._state is not None

    # -- coming up to the log --------------------------------------------------------------------

    def catch_up(self, reader: StoreReader) -> list[LoggedEvent]:
        """Start from the newest snapshot if nothing is known yet, then apply what the log has since."""
        if self.sequence == 0:
            snapshot = reader.snapshot()
            if snapshot is not None:
                self._begin_with(snapshot, reader)
        seen: list[LoggedEvent] = []
        for recorded in reader.events(after=self.sequence):
            self.apply([recorded.event])
            seen.append(recorded.event)
        return seen

    def _begin_with(self, snapshot: Snapshot, reader: StoreReader) -> None:
        plain = json.loads(snapshot.body)
        books = plain.pop(BOOKS, None)
        carried: Carried = from_plain(Carried)(plain)
        if books is None:
            self.books = LiveBooks.replay(reader, snapshot.sequence)
        else:
            self.books = LiveBooks.bring_in(books)
        self.books.budgets.set_tenants(carried.declared.tenants)
        self._state = bring_in(carried)
        self.declared = carried.declared
        self.sequence = snapshot.sequence
        self.last_event_ms = carried.declared.at_ms
        self._set_alarms(self.last_event_ms)

    def _set_alarms(self, now_ms: int) -> None:
        """Nobody remembers which moments are still to come: they are read off the state."""
        coming = wakes_from(self.state, now_ms)
        self._wakes = [(one.at_ms, one.job_id, one.attempt) for one in coming]
        heapq.heapify(self._wakes)

    def snapshot(self, now_ms: int) -> Snapshot:
        """What a later start needs instead of the log so far."""
        assert self.declared is not None
        carried = carry(self.state, self.declared, now_ms)
        plain = {**to_plain(Carried)(carried), BOOKS: self.books.carry()}
        body = json.dumps(plain, separators=(",", ":"))
        return Snapshot(sequence=self.sequence, body=body)

    def apply(self, events: Iterable[LoggedEvent]) -> bool:
        """Fold in committed events; whether any of them calls for a cycle."""
        calls = False
        for event in events:
            self.sequence += 1
            self.last_event_ms = max(self.last_event_ms, event.at_ms)
            self.books.apply(event)
            if isinstance(event, FleetDeclared):
                self._declare(event)
                calls = True
                continue
            if isinstance(event, BillReceived):
                continue
            state = self.state
            state.apply(event)
            for wake in wakes_after(state, event):
                heapq.heappush(self._wakes, (wake.at_ms, wake.job_id, wake.attempt))
            calls = calls or calls_for_a_cycle([event])
        return calls

    def _declare(self, event: FleetDeclared) -> None:
        if self._state is None or self.declared is None:
            self._state = FleetState(event.fleet, event.tenants, event.policies)
            self._state.spot.begin(event.at_ms)
        else:
            self._state = redeclare(self._state, self.declared, event)
            self._set_alarms(event.at_ms)
        self.declared = event

    # -- time alone ------------------------------------------------------------------------------

    def next_wake_ms(self) -> int | None:
        """When time alone may matter next."""
        look_ms = self.books.budgets.next_look_ms
        if self._state is not None:
            look_ms = min(look_ms, next_look_ms(self._state, self._looked_ms))
        wake_ms = self._wakes[0][0] if self._wakes else NEVER_MS
        return None if wake_ms == look_ms == NEVER_MS else min(wake_ms, look_ms)

    def wake(self, now_ms: int) -> bool:
        """Hear the alarms that are due; whether any of them calls for a cycle."""
        calls = next_look_ms(self.state, self._looked_ms) <= now_ms
        self._looked_ms = now_ms if calls else self._looked_ms
        while self._wakes and self._wakes[0][0] <= now_ms:
            at_ms, job_id, attempt = heapq.heappop(self._wakes)
            heard = Wake(at_ms=at_ms, job_id=job_id, attempt=attempt)
            again = wake_again(self.state, heard)
            if again is not None:
                heapq.heappush(self._wakes, (again.at_ms, again.job_id, again.attempt))
            calls = calls or still_matters(self.state, heard, someone_waits=self.someone_waits)
        return calls

    # -- what is live ----------------------------------------------------------------------------

    def live_attempts(self) -> list[AttemptRef]:
        """Every attempt that holds room."""
        if not self.is_declared:
            return []
        return [AttemptRef(job_id=r.id, attempt=r.attempt) for r in self.state.live()]
