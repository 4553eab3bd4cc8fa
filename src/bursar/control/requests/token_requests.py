"""Requests that write tokens and audit entries."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit
from bursar.model.tenants.identity import Token
from bursar.ports import AuditEntry


@dataclass(slots=True, kw_only=True)
class PutTokens:
    """Write new or changed tokens."""

    tokens: Sequence[Token]
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, transaction: Transaction) -> AfterCommit:
        transaction.tokens |= {token.id: token for token in self.tokens}
        return lambda: None


@dataclass(slots=True, kw_only=True)
class AddAuditEntry:
    """Write an audit entry by itself."""

    entry: AuditEntry
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, transaction: Transaction) -> AfterCommit:
        transaction.audit.append(self.entry)
        return lambda: None
