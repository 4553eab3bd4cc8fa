"""Verifies that the tables of a store match its log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The result of a verification; empty tuples if there are no differences."""

    events: int
    differences: tuple[str, ...]
    audit_breaks: tuple[str, ...]
    book_faults: tuple[str, ...]
    micro_usd: int
    """Cost of the fleet by the ledger."""


def integrity_problems(state: str | None, database: str | None) -> list[str] | None:
    """Problems of the database file itself; None if there is no database."""
    from bursar.store import open_store
    from bursar.store.integrity import integrity
    from bursar.wiring.serve import DATABASE_FILE, default_state

    file = (Path(state) if state else default_state()) / DATABASE_FILE
    if database is None and not file.exists():
        return None
    store = open_store(database or file, read_only=True)
    try:
        return integrity(store)
    finally:
        store.close()


def prove(state: str | None, database: str | None) -> Proof:
    """Replay the log and compare, read-only; a leader may keep writing."""
    from bursar.control.live.live_ledger import LiveLedger, ledger_differences
    from bursar.control.live.live_state import LiveState
    from bursar.store import open_store
    from bursar.store.rebuild import differences
    from bursar.wiring.serve import DATABASE_FILE, default_state

    folder = Path(state) if state else default_state()
    store = open_store(database or folder / DATABASE_FILE, read_only=True)
    try:
        live = LiveState()
        live.catch_up(store)
        replayed = LiveLedger.replay(store, live.sequence)
        return Proof(
            events=store.last_sequence(),
            book_faults=tuple(ledger_differences(live.books, replayed, live.last_event_ms)),
            micro_usd=replayed.ledger.at(live.last_event_ms).fleet_micro_usd(),
            differences=tuple(map(str, differences(store))),
            audit_breaks=tuple(store.verify_audit()),
        )
    finally:
        store.close()
