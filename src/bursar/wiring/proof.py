"""Proves, on the store of a control plane, that its tables are what its log says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was compared, and where it is not equal; empty lists when all is well."""

    events: int
    differences: tuple[str, ...]
    audit_breaks: tuple[str, ...]


def prove(state: str | None, database: str | None) -> Proof:
    """Replay the log beside a leader that may go on writing; nothing is changed."""
    from bursar.store import open_store
    from bursar.store.rebuild import differences
    from bursar.wiring.up import DATABASE_FILE, default_state

    folder = Path(state) if state else default_state()
    store = open_store(database or folder / DATABASE_FILE, read_only=True)
    try:
        return Proof(
            events=store.last_sequence(),
            differences=tuple(map(str, differences(store))),
            audit_breaks=tuple(store.verify_audit()),
        )
    finally:
        store.close()
