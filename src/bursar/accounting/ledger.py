"""A meter and the books it posts to: the ledger as a fold of the event log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bursar.accounting.books import Books
from bursar.accounting.entry import AccountKind, Entry, account_of
from bursar.accounting.meter import Meter, Sink
from bursar.accounting.parts import SliceRule
from bursar.model.event import LoggedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a provider says a pool cost in a period of whole hours, and when it said so."""

    at_ms: int
    pool: str
    flavor: str
    from_ms: int
    to_ms: int
    billed_micro_usd: int


class Ledger:
    """Bring in events; read ``books``, or ``at(now_ms)`` for what has come together until now.

    Whoever needs the entries themselves (a store, an export) gives an ``also`` that is told of each.
    """

    def __init__(self, rule: SliceRule = SliceRule.MAX, also: Sink | None = None) -> None:
        self.books = Books()
        post = self.books.post

        def post_twice(entry: Entry) -> None:
            post(entry)
            if also is not None:
                also(entry)

        self.meter = Meter(post if also is None else post_twice, rule)
        self.books.accrue = self.meter.accrued

    def apply(self, event: LoggedEvent) -> None:
        self.meter.apply(event)

    def at(self, now_ms: int) -> Books:
        """The books as of now; nothing is changed."""
        return self.books.at(now_ms)

    def rerate(self, bill: Bill) -> Entry | None:
        """Post what brings the books of a closed period to a real bill; what was posted stays."""
        metered = sum(
            -row.micro_usd
            for row in self.books.hour_rows()
            if row.kind is AccountKind.CAPACITY
            and (row.pool, row.flavor) == (bill.pool, bill.flavor)
            and bill.from_ms <= row.hour_ms < bill.to_ms
        )
        more = bill.billed_micro_usd - metered
        if not more:
            return None
        into = account_of(AccountKind.ADJUSTMENT, bill.pool)
        source = account_of(AccountKind.CAPACITY, bill.pool)
        entry = Entry(
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


def replay(
    events: Iterable[LoggedEvent], until_ms: int | None = None, rule: SliceRule = SliceRule.MAX
) -> Books:
    """The books of a whole log, up to its last event or to a later moment."""
    ledger = Ledger(rule)
    for event in events:
        ledger.apply(event)
    ledger.meter.close(ledger.meter.now_ms if until_ms is None else until_ms)
    return ledger.books
