"""Requests that write tokens and audit entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit, WriteRequest
from bursar.model.tenants.identity import Token
from bursar.ports import AuditEntry


@dataclass(slots=True, kw_only=True)
class PutTokens(WriteRequest[None]):
    """Write new or changed tokens."""

    tokens: Sequence[Token]

    def prepare(self, transaction: Transaction) -> AfterCommit:
        transaction.tokens |= {token.id: token for token in self.tokens}
        return lambda: None


@dataclass(slots=True, kw_only=True)
class AddAuditEntry(WriteRequest[None]):
    """Write an audit entry by itself."""

    entry: AuditEntry

    def prepare(self, transaction: Transaction) -> AfterCommit:
        transaction.audit.append(self.entry)
        return lambda: None
