"""The protocol of all requests to the writer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from bursar.control.live.transaction import Transaction
from bursar.model.tenants.identity import Identity
from bursar.ports import AuditEntry

T = TypeVar("T")
AfterCommit = Callable[[], Any]
"""Called after commit and apply; returns the result of the request."""


class WriteRequest(Protocol[T]):
    """Something to write, with a future for its result."""

    future: Future[T]
    alone: bool
    """Whether it needs a transaction of its own, because later requests must see its effect."""

    def prepare(self, transaction: Transaction) -> AfterCommit:
        """Add to the transaction, or raise ``UserError`` and add nothing."""


def new_audit_entry(caller: Identity, action: str, subject: str, now_ms: int) -> AuditEntry:
    """An audit entry of a privileged action, for the transaction that carries it out."""
    return AuditEntry(
        at_ms=now_ms,
        user=caller.user,
        token_id=caller.token_id,
        action=action,
        subject=subject,
        outcome="done",
    )
