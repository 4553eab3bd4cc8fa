"""The hash chain of the audit log: each row's hash covers the row and the previous hash.

A row cannot be changed, removed or inserted without rewriting every later hash. The newest hash is also
in ``meta``, so that a truncated log is detected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from bursar.ports import AuditEntry
from bursar.store.tables.codec import storable

START = "0" * 64


def entry_hash(previous: str, number: int, entry: dict[str, Any]) -> str:
    """Hash of the columns of an entry, as they are stored, and of the previous hash."""
    values = [storable(one) if isinstance(one, str) else one for one in entry.values()]
    covered = json.dumps([previous, number, *values], separators=(",", ":"))
    return hashlib.sha256(covered.encode()).hexdigest()


def audit_rows(entries: Iterable[AuditEntry], number: int, previous: str) -> list[dict[str, Any]]:
    """Rows for entries that follow the row with this number and hash."""
    rows = []
    for entry in entries:
        number += 1
        columns = asdict(entry)
        previous = entry_hash(previous, number, columns)
        rows.append({"number": number, **columns, "hash": previous})
    return rows


def broken_links(
    rows: Iterable[tuple[int, AuditEntry, str]], head: tuple[int, str]
) -> Sequence[str]:
    """Problems of the chain; empty if it is intact."""
    number, previous = 0, START
    for row_number, entry, written in rows:
        if row_number != number + 1:
            return [f"audit row {number + 1} is missing: row {row_number} follows row {number}"]
        number = row_number
        if entry_hash(previous, number, asdict(entry)) != written:
            return [f"audit row {number} was changed after it was written"]
        previous = written
    if (number, previous) != head:
        return [f"the audit log ends at row {number}, but {head[0]} rows were written"]
    return []
