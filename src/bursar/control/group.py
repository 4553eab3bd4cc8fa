"""Requests that are committed together: one durable transaction serves everybody who waits for one."""

from __future__ import annotations

from functools import cached_property

from bursar.control.budget_door import BudgetDoor
from bursar.control.live_state import LiveState
from bursar.core.admission import AlikeJobs
from bursar.core.state import FleetState
from bursar.model.event import LoggedEvent
from bursar.model.identity import Token
from bursar.ports import Acknowledgement, AuditEntry, Batch, JobOrigin, StoreReader


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
        self.touched: set[tuple[str, type]] = set()
        """Which facts about which job are already among the events."""

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
        if mark in self.touched:
            return False
        self.touched.add(mark)
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
