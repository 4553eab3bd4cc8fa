"""Requests that are committed together: one durable transaction serves everybody who waits for one."""

from __future__ import annotations

from functools import cached_property

from bursar.control.budget_door import BudgetDoor
from bursar.control.live_state import LiveState
from bursar.core.admission import AlikeJobs
from bursar.core.state import FleetState
from bursar.model.event import (
    AttemptResumed,
    CheckpointSaved,
    ForeignUsageSeen,
    LoggedEvent,
    NodeAdded,
    NodeLost,
    SpotNotice,
)
from bursar.model.identity import Token
from bursar.model.report import Progressed
from bursar.ports import Acknowledgement, AuditEntry, Batch, JobOrigin, StoreReader

SAID_AGAIN = (CheckpointSaved, AttemptResumed, SpotNotice, ForeignUsageSeen)
"""Facts of which a later one adds to an earlier: each counts, unless it repeats the last word for word."""


CONTRARY: dict[type, type] = {NodeLost: NodeAdded, NodeAdded: NodeLost}
"""After the one, the other may be true again."""


class Group:
    """What is about to be written. Requests look at the state as it was before the group."""

    def __init__(self, live: LiveState, reader: StoreReader, now_ms: int) -> None:
        self.live = live
        self.reader = reader
        self.now_ms = now_ms
        self.events: list[LoggedEvent] = []
        self.origins: dict[str, JobOrigin] = {}
        self.acknowledgements: dict[tuple[str, str], Acknowledgement] = {}
        self.tokens: dict[str, Token] = {}
        self.audit: list[AuditEntry] = []
        self.alike_jobs = AlikeJobs()
        """Jobs of this group that were found in order."""
        self.touched: dict[tuple[str, type], LoggedEvent] = {}
        """The last fact of each type about each subject that is already among the events."""
        self.progressed: dict[str, Progressed] = {}
        """How far jobs say they have come; no events, so that the log does not grow with it."""

    @property
    def state(self) -> FleetState:
        return self.live.state

    @cached_property
    def door(self) -> BudgetDoor:
        """Hard budgets, and what this group has let in so far."""
        return BudgetDoor(self.live.books.budgets, self.state, self.now_ms)

    @property
    def is_empty(self) -> bool:
        return not (self.events or self.acknowledgements or self.tokens or self.audit)

    def note(self, event: LoggedEvent, subject: str) -> bool:
        """Add a fact about something unless the group already says so of it."""
        mark = (subject, type(event))
        said = self.touched.get(mark)
        if said is not None and (said == event or not isinstance(event, SAID_AGAIN)):
            return False
        self.touched[mark] = event
        if (contrary := CONTRARY.get(type(event))) is not None:
            self.touched.pop((subject, contrary), None)
        self.events.append(event)
        return True

    def acknowledged(self, tenant: str, key: str) -> Acknowledgement | None:
        """What this key was answered, in this group or before."""
        return self.acknowledgements.get((tenant, key)) or self.reader.acknowledgement(tenant, key)

    def batch(self) -> Batch:
        return Batch(
            events=tuple(self.events),
            origins=self.origins,
            acknowledgements=tuple(self.acknowledgements.values()),
            tokens=tuple(self.tokens.values()),
            audit=tuple(self.audit),
        )
