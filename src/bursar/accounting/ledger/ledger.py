"""A meter and the books it posts to: the ledger as a fold of the event log."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.accounting.ledger.books import Books, Carried
from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, Sink, account_of
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.meter_snapshot import MeterSnapshot, carry_meter, resume_meter
from bursar.accounting.ledger.node_parts import SliceRule
from bursar.model.event import BillReceived, LoggedEvent


class Ledger:
    """Bring in events; read ``books``, or ``at(now_ms)`` for what has come together until now.

    Whoever needs the entries themselves (a store, an export) gives an ``also`` that is told of each.
    """

    def __init__(self, rule: SliceRule = SliceRule.MAX, also: Sink | None = None) -> None:
        self.books = Books()
        self.meter = Meter(_both(self.books.post, also), rule)
        self.books.accrue = self.meter.accrued
        self.meter.hear_bills(self.rerate)

    def apply(self, event: LoggedEvent) -> None:
        self.meter.apply(event)

    def to_snapshot(self) -> tuple[MeterSnapshot, Carried]:
        """What ``resume`` goes on from: the meter, and the balances in plain values."""
        return carry_meter(self.meter), self.books.to_snapshot()

    @staticmethod
    def resume(meter: MeterSnapshot, books: Carried, also: Sink | None = None) -> Ledger:
        """The ledger that was carried."""
        ledger = Ledger(meter.rule, also)
        ledger.books.restore(books)
        ledger.meter = resume_meter(meter, ledger.meter.sink)
        ledger.books.accrue = ledger.meter.accrued
        ledger.meter.hear_bills(ledger.rerate)
        return ledger

    def at(self, now_ms: int) -> Books:
        """The books as of now; nothing is changed."""
        return self.books.at(now_ms)

    def rerate(self, bill: BillReceived) -> LedgerEntry | None:
        """Post what brings the books of a closed period to a real bill; what was posted stays."""
        place = (bill.pool, bill.flavor)
        more = bill.billed_micro_usd - self.books.capacity_micro_usd(
            place, bill.from_ms, bill.to_ms
        )
        if not more:
            return None
        into = account_of(AccountKind.ADJUSTMENT, bill.pool)
        source = account_of(AccountKind.CAPACITY, bill.pool)
        entry = LedgerEntry(
            sequence=self.meter.sequence,
            from_ms=bill.from_ms,
            to_ms=bill.to_ms,
            posted_ms=bill.at_ms,
            debit=into if more > 0 else source,
            credit=source if more > 0 else into,
            micro_usd=abs(more),
            pool=bill.pool,
            flavor=bill.flavor,
        )
        self.meter.sequence += 1
        self.meter.sink(entry)
        return entry


def _both(post: Sink, also: Sink | None) -> Sink:
    if also is None:
        return post

    def post_twice(entry: LedgerEntry) -> None:
        post(entry)
        also(entry)

    return post_twice


def replay(
    events: Iterable[LoggedEvent], until_ms: int | None = None, rule: SliceRule = SliceRule.MAX
) -> Books:
    """The books of a whole log, up to its last event or to a later moment."""
    ledger = Ledger(rule)
    for event in events:
        ledger.apply(event)
    ledger.meter.close(ledger.meter.now_ms if until_ms is None else until_ms)
    return ledger.books
