"""Books of long ago, with every job: the live ones keep only what queues and pools came to."""

from __future__ import annotations

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.model.calendar import month_before
from bursar.ports import StoreReader


def keeps_jobs_since(now_ms: int) -> int:
    """From when on the live books know single jobs."""
    return month_before(now_ms)


def books_from_log(reader: StoreReader, now_ms: int) -> Books:
    """The whole log once more. Takes about as long as reading it."""
    ledger = Ledger()
    for recorded in reader.events():
        ledger.apply(recorded.event)
    return ledger.at(now_ms)
