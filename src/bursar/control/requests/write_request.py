"""What every request to the writer has in common."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from bursar.control.live.transaction import Transaction
from bursar.model.tenants.identity import Identity
from bursar.ports import AuditEntry

T = TypeVar("T")
Answer = Callable[[], Any]
"""Gives what the caller gets, once everything is committed and applied."""


class WriteRequest(Protocol[T]):
    """Something to be written."""

    future: Future[T]
    alone: bool
    """Whether it must not share a group: what follows must see its effect."""

    def prepare(self, group: Transaction) -> Answer:
        """Add to the group, or raise ``UserError``; then nothing of it may be in the group."""


def new_audit_entry(who: Identity, action: str, subject: str, now_ms: int) -> AuditEntry:
    """Something privileged that was done; it is written in the transaction that does it."""
    return AuditEntry(
        at_ms=now_ms,
        user=who.user,
        token_id=who.token_id,
        action=action,
        subject=subject,
        outcome="done",
    )
