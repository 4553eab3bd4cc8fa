"""The fleet in memory, brought up to the log event by event, and the moments time alone may matter."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable

from bursar.core.alarms import Wake, calls_for_a_cycle, still_matters, wake_again, wakes_after
from bursar.core.carry import bring_in, carry, redeclare
from bursar.core.lifecycle import LIVE
from bursar.core.state import FleetState
from bursar.model.carried import Carried
from bursar.model.errors import BrokenInvariant
from bursar.model.event import FleetDeclared, LoggedEvent
from bursar.model.plain_values import from_plain, to_plain
from bursar.ports import AttemptRef, Snapshot, StoreReader


class LiveState:
    """``state`` is the fold of the log up to ``sequence``. Owned by one thread."""

    def __init__(self) -> None:
        self.sequence = 0
        self.last_event_ms = 0
        self.declared: FleetDeclared | None = None
        self._state: FleetState | None = None
        self._wakes: list[tuple[int, str, int]] = []
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
                self._begin_with(snapshot)
        seen: list[LoggedEvent] = []
        for recorded in reader.events(after=self.sequence):
            self.apply([recorded.event])
            seen.append(recorded.event)
        return seen

    def _begin_with(self, snapshot: Snapshot) -> None:
        carried: Carried = from_plain(Carried)(json.loads(snapshot.body))
        self._state = bring_in(carried)
        self.declared = carried.declared
        self.sequence = snapshot.sequence
        self.last_event_ms = carried.declared.at_ms
        for record in self._state.jobs.values():
            self._wake_for(record.id, record.attempt if record.state in LIVE else 0)

    def _wake_for(self, job_id: str, attempt: int) -> None:
        """After a start nobody knows which moments are still to come: look once, soon."""
        heapq.heappush(self._wakes, (0, job_id, attempt))

    def snapshot(self, now_ms: int) -> Snapshot:
        """What a later start needs instead of the log so far."""
        assert self.declared is not None
        carried = carry(self.state, self.declared, now_ms)
        body = json.dumps(to_plain(Carried)(carried), separators=(",", ":"))
        return Snapshot(sequence=self.sequence, body=body)

    def apply(self, events: Iterable[LoggedEvent]) -> bool:
        """Fold in committed events; whether any of them calls for a cycle."""
        calls = False
        for event in events:
            self.sequence += 1
            self.last_event_ms = max(self.last_event_ms, event.at_ms)
            if isinstance(event, FleetDeclared):
                self._declare(event)
                calls = True
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
        else:
            self._state = redeclare(self._state, self.declared, event)
        self.declared = event

    # -- time alone ------------------------------------------------------------------------------

    def next_wake_ms(self) -> int | None:
        """When time alone may matter next."""
        return self._wakes[0][0] if self._wakes else None

    def wake(self, now_ms: int) -> bool:
        """Hear the alarms that are due; whether any of them calls for a cycle."""
        calls = False
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
