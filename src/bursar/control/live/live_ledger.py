"""The ledger in memory: a fold of the same log as the state, saved in the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bursar.accounting.budgets.budget_monitor import BudgetMonitor
from bursar.accounting.budgets.spending import SpendingTotals
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.meter_snapshot import MeterSnapshot
from bursar.gc_tuning import rare_gc
from bursar.model.calendar import month_before, period_around
from bursar.model.event import LoggedEvent
from bursar.model.tenants.tenant import BudgetPeriod
from bursar.ports import StoreReader


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSnapshot:
    """What ``LiveLedger.restore`` needs."""

    meter: MeterSnapshot
    books: dict[str, Any]
    spending: dict[str, Any]
    fold_at_ms: int


class LiveLedger:
    """``ledger`` and ``budgets`` are folds of the log so far. Owned by the writer thread.

    It has single jobs and hours of this month and the previous one. Older months are folded into daily
    totals of queues and pools, so that memory does not grow with every job; ``queries/full_ledger.py``
    replays the log for those by job.
    """

    def __init__(self) -> None:
        self.spending = SpendingTotals()
        self.ledger = Ledger(also=self.spending.post)
        self.budgets = BudgetMonitor(self.ledger.meter, self.spending)
        self._fold_at_ms = 0

    def apply(self, event: LoggedEvent) -> None:
        if event.at_ms >= self._fold_at_ms:
            self._begin_month(event.at_ms)
        self.ledger.apply(event)
        self.budgets.apply(event)

    def _begin_month(self, at_ms: int) -> None:
        """At the first event of a month, fold everything before the previous month."""
        self._fold_at_ms = period_around(BudgetPeriod.MONTH, at_ms)[1]
        self.ledger.books.fold(month_before(at_ms))
        self.spending.forget(period_around(BudgetPeriod.YEAR, month_before(at_ms))[0])

    # -- snapshots -------------------------------------------------------------------------------

    def to_snapshot(self) -> LedgerSnapshot:
        meter, books = self.ledger.to_snapshot()
        return LedgerSnapshot(
            meter=meter,
            books=books,
            spending=self.spending.to_snapshot(),
            fold_at_ms=self._fold_at_ms,
        )

    @staticmethod
    def restore(snapshot: LedgerSnapshot) -> LiveLedger:
        live = LiveLedger()
        live.spending = SpendingTotals.restore(snapshot.spending)
        live.ledger = Ledger.resume(snapshot.meter, snapshot.books, live.spending.post)
        live.budgets = BudgetMonitor(live.ledger.meter, live.spending)
        live._fold_at_ms = snapshot.fold_at_ms
        return live

    @staticmethod
    def replay(reader: StoreReader, up_to: int) -> LiveLedger:
        """The ledger from the log alone: for a snapshot without one, and to verify one."""
        fresh = LiveLedger()
        if up_to:
            with rare_gc():
                for recorded in reader.events(limit=up_to):
                    fresh.apply(recorded.event)
        return fresh


def ledger_differences(restored: LiveLedger, replayed: LiveLedger, now_ms: int) -> Iterator[str]:
    """Differences between a restored ledger and a replayed one, and imbalances of either."""
    restored_books, replayed_books = restored.ledger.at(now_ms), replayed.ledger.at(now_ms)
    for name, books in (("restored", restored_books), ("replayed", replayed_books)):
        if books.trial_balance():
            yield f"the {name} books do not balance: off by {books.trial_balance():,} micro-dollars"
    hours = {(one.hour_ms, one.pool, one.account): one for one in restored_books.hour_rows()}
    others = {(one.hour_ms, one.pool, one.account): one for one in replayed_books.hour_rows()}
    for hour in sorted(hours.keys() | others.keys()):
        if hours.get(hour) != others.get(hour):
            yield f"hour {hour[0]} of {hour[2]} in pool {hour[1]} differs from the log"
    if restored_books.job_rows() != replayed_books.job_rows():
        yield "usage and waste of jobs differ from the log"
    if restored.spending.to_snapshot() != replayed.spending.to_snapshot():
        yield "spent and held amounts of budgets differ from the log"
