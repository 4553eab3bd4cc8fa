"""Requests that write tokens and audit entries."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import Answer
from bursar.model.tenants.identity import Token
from bursar.ports import AuditEntry


@dataclass(slots=True, kw_only=True)
class PutTokens:
    """New tokens, or known ones that changed."""

    tokens: Sequence[Token]
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
        group.tokens |= {token.id: token for token in self.tokens}
        return lambda: None


@dataclass(slots=True, kw_only=True)
class NoteAudit:
    """Somebody did or tried something."""

    entry: AuditEntry
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
        group.audit.append(self.entry)
        return lambda: None
