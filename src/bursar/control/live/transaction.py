"""Requests that are committed together: one durable transaction serves everybody who waits for one."""

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
from bursar.model.tenants.identity import Token
from bursar.ports import Acknowledgement, AuditEntry, Batch, Engine, JobOrigin, StoreReader

SAID_AGAIN = (CheckpointSaved, AttemptResumed, SpotNotice, ForeignUsageSeen)
"""Facts of which a later one adds to an earlier: each counts, unless it repeats the last word for word."""


CONTRARY: dict[type, type] = {NodeLost: NodeAdded, NodeAdded: NodeLost}
"""After the one, the other may be true again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What this server can do, whatever its log says."""

    engines: Mapping[EngineKind, Engine] = field(default_factory=dict)
    known_models: Collection[str] = ()
    """GPU models that the catalog knows."""


class Transaction:
    """What is about to be written. Requests look at the state as it was before the group."""

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
        self.alike_jobs = CheckedJobs()
        """Jobs of this group that were found in order."""
        self.touched: dict[tuple[str, type], LoggedEvent] = {}
        """The last fact of each type about each subject that is already among the events."""
        self.progressed: dict[str, Progressed] = {}
        """How far jobs say they have come; no events, so that the log does not grow with it."""

    @property
    def state(self) -> FleetState:
        return self.live.state

    @cached_property
    def door(self) -> BudgetAdmission:
        """Hard budgets, and what this group has let in so far."""
        return BudgetAdmission(self.live.books.budgets, self.state, self.now_ms)

    @cached_property
    def access_tree(self) -> AccessTree:
        """Which tenants are below which, as declared now."""
        return access_tree(self.state.tenants.values())

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
