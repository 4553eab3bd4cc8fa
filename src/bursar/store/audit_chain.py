"""The audit log's chain: each row's hash covers the row and the hash before it.

Whoever changes, removes or inserts a row must also write every hash after it anew, and the newest one
is kept apart in ``meta`` as well, so that a cut-off end is noticed too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

from bursar.ports import AuditEntry
from bursar.store.tables.codec import storable

START = "0" * 64


def chained(before: str, number: int, entry: AuditEntry) -> str:
    """The hash of an entry, as the databases hold it, that follows on another's."""
    words = [storable(one) if isinstance(one, str) else one for one in astuple(entry)]
    covered = json.dumps([before, number, *words], separators=(",", ":"))
    return hashlib.sha256(covered.encode()).hexdigest()


def audit_rows(entries: Iterable[AuditEntry], number: int, before: str) -> list[dict[str, Any]]:
    """Rows for entries that follow the row of this number and hash."""
    rows = []
    for entry in entries:
        number += 1
        before = chained(before, number, entry)
        rows.append({"number": number, **_columns(entry), "hash": before})
    return rows


def broken_links(
    rows: Iterable[tuple[int, AuditEntry, str]], head: tuple[int, str]
) -> Sequence[str]:
    """What is wrong with the chain, in words; nothing when it holds."""
    number, before = 0, START
    for found, entry, written in rows:
        if found != number + 1:
            return [f"audit row {number + 1} is missing: row {found} follows row {number}"]
        number = found
        if chained(before, number, entry) != written:
            return [f"audit row {number} was changed after it was written"]
        before = written
    if (number, before) != head:
        return [f"the audit log ends at row {number}, but {head[0]} rows were written"]
    return []


def _columns(entry: AuditEntry) -> dict[str, Any]:
    return {
        "at_ms": entry.at_ms,
        "user": entry.user,
        "token_id": entry.token_id,
        "action": entry.action,
        "subject": entry.subject,
        "outcome": entry.outcome,
        "detail": entry.detail,
    }
