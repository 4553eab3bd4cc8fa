"""Requests that are committed together in one durable transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from bursar.control.access.permissions import AccessTree, access_tree
from bursar.control.live.budget_admission import BudgetAdmission
from bursar.control.live.live_state import LiveState
from bursar.core.admission.admit import CheckedJobs
from bursar.core.state.fleet_state import FleetState
from bursar.model.engine_report import Progressed
from bursar.model.event import (
    AttemptResumed,
    CheckpointSaved,
    ForeignUsageSeen,
    LoggedEvent,
    NodeAdded,
    NodeLost,
    SpotNotice,
)
from bursar.model.fleet.fleet import EngineKind
from bursar.model.tenants.identity import Identity, Token
from bursar.ports import Acknowledgement, AuditEntry, Batch, Engine, JobOrigin, StoreReader

REPEATABLE = (CheckpointSaved, AttemptResumed, SpotNotice, ForeignUsageSeen)
"""Events that may occur several times for one subject; only an exact repetition is dropped."""

OPPOSITE: dict[type, type] = {NodeLost: NodeAdded, NodeAdded: NodeLost}
"""After the one event, the other may occur again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What this server has, independent of its log."""

    engines: Mapping[EngineKind, Engine] = field(default_factory=dict)
    known_models: Collection[str] = ()
    """GPU models of the catalog."""


class Transaction:
    """What is about to be written. All its requests read the state as it was before it."""

    def __init__(
        self, live: LiveState, reader: StoreReader, now_ms: int, installation: Installation
    ) -> None:
        self.live = live
        self.reader = reader
        self.now_ms = now_ms
        self.installation = installation
        self.events: list[LoggedEvent] = []
        self.origins: dict[str, JobOrigin] = {}
        self.acknowledgements: dict[tuple[str, str], Acknowledgement] = {}
        self.tokens: dict[str, Token] = {}
        self.audit: list[AuditEntry] = []
        self.checked_jobs = CheckedJobs()
        """Valid jobs of this transaction; identical ones need no second check."""
        self.progressed: dict[str, Progressed] = {}
        """Progress of jobs. Not events, so that the log does not grow with it."""
        self._last_events: dict[tuple[str, type], LoggedEvent] = {}
        """The last event in this transaction, by subject and event type."""

    @property
    def state(self) -> FleetState:
        return self.live.state

    @cached_property
    def budget_admission(self) -> BudgetAdmission:
        """Hard budgets, including what this transaction holds so far."""
        return BudgetAdmission(self.live.books.budgets, self.state, self.now_ms)

    @cached_property
    def access_tree(self) -> AccessTree:
        return access_tree(self.state.tenants.values())

    @property
    def is_empty(self) -> bool:
        return not (self.events or self.acknowledgements or self.tokens or self.audit)

    def add(self, event: LoggedEvent, subject: str) -> bool:
        """Add an event unless it repeats one of this transaction; returns whether it was added."""
        key = (subject, type(event))
        last = self._last_events.get(key)
        if last is not None and (last == event or not isinstance(event, REPEATABLE)):
            return False
        self._last_events[key] = event
        if (opposite := OPPOSITE.get(type(event))) is not None:
            self._last_events.pop((subject, opposite), None)
        self.events.append(event)
        return True

    def record_action(self, caller: Identity, action: str, subject: str) -> None:
        """Add an audit entry of a privileged action, which this transaction carries out."""
        self.audit.append(
            AuditEntry(
                at_ms=self.now_ms,
                user=caller.user,
                token_id=caller.token_id,
                action=action,
                subject=subject,
                outcome="done",
            )
        )

    def acknowledged(self, tenant: str, key: str) -> Acknowledgement | None:
        """The acknowledgement of an idempotency key, in this transaction or before."""
        return self.acknowledgements.get((tenant, key)) or self.reader.acknowledgement(tenant, key)

    def batch(self) -> Batch:
        return Batch(
            events=tuple(self.events),
            origins=self.origins,
            acknowledgements=tuple(self.acknowledgements.values()),
            tokens=tuple(self.tokens.values()),
            audit=tuple(self.audit),
        )
