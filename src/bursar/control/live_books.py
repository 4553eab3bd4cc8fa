"""The ledger beside the state: a fold of the same log, carried in the same snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bursar.accounting.books import Books
from bursar.accounting.budget_keeper import BudgetKeeper
from bursar.accounting.carried_meter import CarriedMeter
from bursar.accounting.ledger import Ledger
from bursar.accounting.spending import Spending
from bursar.control.collector import seldom_collecting
from bursar.model.calendar import month_before, period_around
from bursar.model.event import LoggedEvent
from bursar.model.plain_values import from_plain, to_plain
from bursar.model.tenant import BudgetPeriod
from bursar.ports import StoreReader

_meter_to_plain, _meter_from_plain = to_plain(CarriedMeter), from_plain(CarriedMeter)


class LiveBooks:
    """``ledger`` and ``budgets`` are folds of the log so far. Owned by the thread that owns the state.

    It knows single jobs and hours of the present month and the one before it. Of older ones it keeps
    what queues and pools came to each day, so that it does not grow with every job there ever was; who
    wants those by job replays the log.
    """

    def __init__(self) -> None:
        self.spending = Spending()
        self.ledger = Ledger(also=self.spending.post)
        self.budgets = BudgetKeeper(self.ledger.meter, self.spending)
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

    def carry(self) -> dict[str, Any]:
        """Plain values that ``bring_in`` makes equal books from."""
        meter, books = self.ledger.carry()
        return {
            "meter": _meter_to_plain(meter),
            "books": books,
            "spending": self.spending.carry(),
            "fold_at_ms": self._fold_at_ms,
        }

    @staticmethod
    def bring_in(carried: dict[str, Any]) -> LiveBooks:
        """The books that were carried."""
        live = LiveBooks()
        meter = _meter_from_plain(carried["meter"])
        live.spending = Spending.bring_in(carried["spending"])
        live.ledger = Ledger.resume(meter, carried["books"], live.spending.post)
        live.budgets = BudgetKeeper(live.ledger.meter, live.spending)
        live._fold_at_ms = carried["fold_at_ms"]
        return live

    @staticmethod
    def replay(reader: StoreReader, up_to: int) -> LiveBooks:
        """From the log alone: where a snapshot carries no books, and to prove those that are carried."""
        fresh = LiveBooks()
        if up_to:
            with seldom_collecting():
                for recorded in reader.events(limit=up_to):
                    fresh.apply(recorded.event)
        return fresh


def unlike_books(ours: LiveBooks, theirs: LiveBooks, now_ms: int) -> Iterator[str]:
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
    if ours.spending.carry() != theirs.spending.carry():
        yield "what is spent and held of budgets differs from the log's"
