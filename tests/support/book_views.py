"""Books of a whole log, and their sums by hour, day, pool, GPU model, market, queue and job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from bursar.accounting.ledger.books import Books, HourRow, market_of, model_of
from bursar.accounting.ledger.entry import QUEUE_KINDS, AccountKind, name_of
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.ledger.node_fraction import SliceRule
from bursar.model.event import LoggedEvent
from bursar.model.units import DAY_MS

Key = TypeVar("Key", int, str)


def replay(
    events: Iterable[LoggedEvent], until_ms: int | None = None, rule: SliceRule = SliceRule.MAX
) -> Books:
    """The books of a whole log, up to its last event or to ``until_ms``."""
    ledger = Ledger(rule)
    for event in events:
        ledger.apply(event)
    ledger.meter.close(ledger.meter.now_ms if until_ms is None else until_ms)
    return ledger.books


def _by(
    books: Books, kinds: Collection[AccountKind], key_of: Callable[[HourRow], Key]
) -> dict[Key, int]:
    sums: Counter[Key] = Counter()
    for row in books.hour_rows(kinds):
        sums[key_of(row)] += row.micro_usd
    return dict(sorted(sums.items()))


def by_hour(books: Books, kinds: Collection[AccountKind]) -> dict[int, int]:
    return _by(books, kinds, lambda row: row.hour_ms)


def by_day(books: Books, kinds: Collection[AccountKind]) -> dict[int, int]:
    return _by(books, kinds, lambda row: row.hour_ms // DAY_MS * DAY_MS)


def by_pool(books: Books, kinds: Collection[AccountKind]) -> dict[str, int]:
    return _by(books, kinds, lambda row: row.pool)


def by_gpu_model(books: Books, kinds: Collection[AccountKind]) -> dict[str, int]:
    return _by(books, kinds, lambda row: model_of(row.flavor))


def by_market(books: Books, kinds: Collection[AccountKind]) -> dict[str, int]:
    return _by(books, kinds, lambda row: market_of(row.flavor))


def by_queue(books: Books) -> dict[str, int]:
    """What each queue used and wasted."""
    return _by(books, QUEUE_KINDS, lambda row: name_of(row.account))


def by_job(books: Books) -> dict[str, int]:
    """What each job used and wasted."""
    sums: Counter[str] = Counter()
    for row in books.job_rows():
        sums[row.job_id] += row.micro_usd
    return dict(sorted(sums.items()))
