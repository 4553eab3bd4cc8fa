"""The books of earlier months by job; the live ledger has only totals of queues and pools."""

from __future__ import annotations

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.model.calendar import month_before
from bursar.ports import StoreReader


def job_detail_since_ms(now_ms: int) -> int:
    """Since when the live ledger has single jobs."""
    return month_before(now_ms)


def replay_books(reader: StoreReader, now_ms: int) -> Books:
    """The books of the whole log. Takes about as long as reading it."""
    ledger = Ledger()
    for recorded in reader.events():
        ledger.apply(recorded.event)
    return ledger.at(now_ms)
