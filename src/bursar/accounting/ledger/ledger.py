"""The ledger: a meter and the books that it posts to."""

from __future__ import annotations

from bursar.accounting.ledger.books import Books, BooksSnapshot
from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, Sink, account_of
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.meter_snapshot import (
    MeterSnapshot,
    meter_from_snapshot,
    meter_to_snapshot,
)
from bursar.accounting.ledger.node_fraction import SliceRule
from bursar.model.event import BillReceived, LoggedEvent


class Ledger:
    """Applies events; read ``books``, or ``at(now_ms)`` to include what is not posted yet.

    ``also`` is a second sink that receives every entry, for example for budgets.
    """

    def __init__(self, rule: SliceRule = SliceRule.MAX, also: Sink | None = None) -> None:
        self.books = Books()
        self.meter = Meter(_both(self.books.post, also), rule)
        self.books.accrue = self.meter.accrued
        self.meter.on_bill(self.rerate)

    def apply(self, event: LoggedEvent) -> None:
        self.meter.apply(event)

    def to_snapshot(self) -> tuple[MeterSnapshot, BooksSnapshot]:
        """The meter and the balances in plain values, for ``resume``."""
        return meter_to_snapshot(self.meter), self.books.to_snapshot()

    @staticmethod
    def resume(meter: MeterSnapshot, books: BooksSnapshot, also: Sink | None = None) -> Ledger:
        """Restores a ledger from its snapshot."""
        ledger = Ledger(meter.rule, also)
        ledger.books.restore(books)
        ledger.meter = meter_from_snapshot(meter, ledger.meter.sink)
        ledger.books.accrue = ledger.meter.accrued
        ledger.meter.on_bill(ledger.rerate)
        return ledger

    def at(self, now_ms: int) -> Books:
        """The books as of now, without changing them."""
        return self.books.at(now_ms)

    def rerate(self, bill: BillReceived) -> LedgerEntry | None:
        """Posts the difference between a real bill and the metered cost of its period."""
        metered = self.books.capacity_micro_usd(bill.pool, bill.flavor, bill.from_ms, bill.to_ms)
        difference = bill.billed_micro_usd - metered
        if not difference:
            return None
        adjustment = account_of(AccountKind.ADJUSTMENT, bill.pool)
        capacity = account_of(AccountKind.CAPACITY, bill.pool)
        entry = LedgerEntry(
            sequence=self.meter.sequence,
            from_ms=bill.from_ms,
            to_ms=bill.to_ms,
            posted_ms=bill.at_ms,
            debit=adjustment if difference > 0 else capacity,
            credit=capacity if difference > 0 else adjustment,
            micro_usd=abs(difference),
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
