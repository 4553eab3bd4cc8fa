"""The fleet state in memory, updated from the log, and its timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bursar.accounting.budgets.budget import NEVER_MS
from bursar.codec import from_text, to_text
from bursar.control.live.live_ledger import LedgerSnapshot, LiveLedger
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.snapshot import from_snapshot, redeclare, to_snapshot
from bursar.core.state.timers import QUIET, Timers
from bursar.model.errors import BrokenInvariant
from bursar.model.event import BillReceived, FleetDeclared, LoggedEvent
from bursar.model.fleet.fleet import EngineKind
from bursar.model.state_snapshot import StateSnapshot
from bursar.ports import AttemptRef, Snapshot, StoreReader


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSnapshot:
    """What a start needs instead of the log; a missing ledger is replayed."""

    state: StateSnapshot
    ledger: LedgerSnapshot | None = None


class LiveState:
    """``state`` and ``books`` are folds of the log up to ``sequence``. Owned by the writer thread."""

    def __init__(self) -> None:
        self.sequence = 0
        self.last_event_ms = 0
        self.declared: FleetDeclared | None = None
        self.books = LiveLedger()
        self._state: FleetState | None = None
        self._timers: Timers | None = None
        self._timer_appliers: dict[type, Callable[..., None]] = {}

    @property
    def state(self) -> FleetState:
        """The fleet state; an error before a fleet is declared."""
        if self._state is None:
            raise BrokenInvariant("no fleet has been declared yet")
        return self._state

    def engine_of(self, pool: str) -> EngineKind:
        """The engine that runs the jobs of a pool."""
        return self.state.clusters[self.state.pools[pool].spec.cluster].engine

    @property
    def is_declared(self) -> bool:
        return self._state is not None

    # -- following the log -----------------------------------------------------------------------

    def catch_up(self, reader: StoreReader) -> list[LoggedEvent]:
        """Apply and return new events of the log; at first start from the newest snapshot."""
        if self.sequence == 0:
            snapshot = reader.snapshot()
            if snapshot is not None:
                self._restore(snapshot, reader)
        events: list[LoggedEvent] = []
        for recorded in reader.events(after=self.sequence):
            self.apply([recorded.event])
            events.append(recorded.event)
        return events

    def _restore(self, snapshot: Snapshot, reader: StoreReader) -> None:
        live = from_text(LiveSnapshot, snapshot.body)
        declared = live.state.declared
        if live.ledger is None:
            self.books = LiveLedger.replay(reader, snapshot.sequence)
        else:
            self.books = LiveLedger.restore(live.ledger)
        self.books.budgets.set_tenants(declared.tenants)
        self._state = from_snapshot(live.state)
        self.declared = declared
        self.sequence = snapshot.sequence
        self.last_event_ms = declared.at_ms
        self._set_timers(self.last_event_ms)

    def _set_timers(self, now_ms: int) -> None:
        """Timers follow from the state alone, so a new state gets new ones."""
        self._timers = Timers(self.state, now_ms)
        self._timer_appliers = self._timers.appliers()

    def snapshot(self, now_ms: int) -> Snapshot:
        """What a later start needs instead of the log so far."""
        assert self.declared is not None
        state = to_snapshot(self.state, self.declared, now_ms)
        live = LiveSnapshot(state=state, ledger=self.books.to_snapshot())
        return Snapshot(sequence=self.sequence, body=to_text(live))

    def apply(self, events: Iterable[LoggedEvent]) -> bool:
        """Apply committed events; returns whether any of them calls for a cycle."""
        needs_cycle = False
        for event in events:
            self.sequence += 1
            self.last_event_ms = max(self.last_event_ms, event.at_ms)
            self.books.apply(event)
            if isinstance(event, FleetDeclared):
                self._declare(event)
                needs_cycle = True
                continue
            if isinstance(event, BillReceived):
                continue
            state = self.state
            state.apply(event)
            if (set_timers := self._timer_appliers.get(type(event))) is not None:
                set_timers(event)
            needs_cycle = needs_cycle or type(event) not in QUIET
        return needs_cycle

    def _declare(self, event: FleetDeclared) -> None:
        if self._state is None or self.declared is None:
            self._state = FleetState(event.fleet, event.tenants, event.policies)
            self._state.spot.begin(event.at_ms)
        else:
            self._state = redeclare(self._state, self.declared, event)
        self._set_timers(event.at_ms)
        self.declared = event

    # -- timers ----------------------------------------------------------------------------------

    def next_timer_ms(self) -> int | None:
        """The next time at which a cycle or a budget check may be due without an event."""
        next_ms = self.books.budgets.next_check_ms
        if self._timers is not None:
            next_ms = min(next_ms, self._timers.next_ms())
        return None if next_ms == NEVER_MS else next_ms

    def timer_due(self, now_ms: int) -> bool:
        """Consume the timers up to now; returns whether any of them calls for a cycle."""
        return self._timers is not None and self._timers.due(now_ms)

    def after_cycle(self, now_ms: int, *, has_waiting_jobs: bool) -> None:
        """Record whether the cycle left jobs waiting: most timers matter only then."""
        if self._timers is not None:
            self._timers.after_cycle(now_ms, has_waiting_jobs=has_waiting_jobs)

    def live_attempts(self) -> list[AttemptRef]:
        """Every attempt that holds resources."""
        if not self.is_declared:
            return []
        return [AttemptRef(job_id=r.id, attempt=r.attempt) for r in self.state.live()]
