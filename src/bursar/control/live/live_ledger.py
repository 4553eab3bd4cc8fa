"""The ledger beside the state: a fold of the same log, carried in the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bursar.accounting.budgets.budget_monitor import BudgetMonitor
from bursar.accounting.budgets.spending import SpendingTotals
from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.meter_snapshot import MeterSnapshot
from bursar.gc_tuning import rare_gc
from bursar.model.calendar import month_before, period_around
from bursar.model.event import LoggedEvent
from bursar.model.tenants.tenant import BudgetPeriod
from bursar.ports import StoreReader


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSnapshot:
    """What ``LiveLedger.restore`` makes an equal ledger from."""

    meter: MeterSnapshot
    books: dict[str, Any]
    spending: dict[str, Any]
    fold_at_ms: int


class LiveLedger:
    """``ledger`` and ``budgets`` are folds of the log so far. Owned by the thread that owns the state.

    It knows single jobs and hours of the present month and the one before it. Of older ones it keeps
    what queues and pools came to each day, so that it does not grow with every job there ever was; who
    wants those by job replays the log.
    """

    def __init__(self) -> None:
        self.spending = SpendingTotals()
        self.ledger = Ledger(also=self.spending.post)
        self.budgets = BudgetMonitor(self.ledger.meter, self.spending)
        self._fold_at_ms = 0

    def apply(self, event: LoggedEvent) -> None:
        """Bring the books up to an event."""
        if event.at_ms >= self._fold_at_ms:
            self._begin_month(event.at_ms)
        self.ledger.apply(event)
        self.budgets.apply(event)

    def books_at(self, now_ms: int) -> Books:
        """What everything has come to until now; nothing is changed."""
        return self.ledger.at(now_ms)

    def _begin_month(self, at_ms: int) -> None:
        """The first event of a month: what lies behind the month before it becomes coarser."""
        self._fold_at_ms = period_around(BudgetPeriod.MONTH, at_ms)[1]
        self.ledger.books.fold(month_before(at_ms))
        self.spending.forget(period_around(BudgetPeriod.YEAR, month_before(at_ms))[0])

    # -- stopping and going on -------------------------------------------------------------------

    def to_snapshot(self) -> LedgerSnapshot:
        """What ``restore`` needs."""
        meter, books = self.ledger.to_snapshot()
        return LedgerSnapshot(
            meter=meter,
            books=books,
            spending=self.spending.to_snapshot(),
            fold_at_ms=self._fold_at_ms,
        )

    @staticmethod
    def restore(carried: LedgerSnapshot) -> LiveLedger:
        """The books that were carried."""
        live = LiveLedger()
        live.spending = SpendingTotals.restore(carried.spending)
        live.ledger = Ledger.resume(carried.meter, carried.books, live.spending.post)
        live.budgets = BudgetMonitor(live.ledger.meter, live.spending)
        live._fold_at_ms = carried.fold_at_ms
        return live

    @staticmethod
    def replay(reader: StoreReader, up_to: int) -> LiveLedger:
        """From the log alone: where a snapshot carries no books, and to prove those that are carried."""
        fresh = LiveLedger()
        if up_to:
            with rare_gc():
                for recorded in reader.events(limit=up_to):
                    fresh.apply(recorded.event)
        return fresh


def unlike_books(ours: LiveLedger, theirs: LiveLedger, now_ms: int) -> Iterator[str]:
    """Where two books of one log are not equal, and where either does not balance."""
    mine, other = ours.books_at(now_ms), theirs.books_at(now_ms)
    for name, books in (("carried", mine), ("replayed", other)):
        if books.trial_balance():
            yield f"the {name} books do not balance: {books.trial_balance():,} micro-dollars over"
    hours = {(one.hour_ms, one.pool, one.account): one for one in mine.hour_rows()}
    others = {(one.hour_ms, one.pool, one.account): one for one in other.hour_rows()}
    for hour in sorted(hours.keys() | others.keys()):
        if hours.get(hour) != others.get(hour):
            yield f"hour {hour[0]} of {hour[2]} in pool {hour[1]} differs from the log's"
    if mine.job_rows() != other.job_rows():
        yield "what jobs used and wasted differs from the log's"
    if ours.spending.to_snapshot() != theirs.spending.to_snapshot():
        yield "what is spent and held of budgets differs from the log's"
