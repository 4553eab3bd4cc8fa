"""Which days a question about money is about, and a copy of the books of those days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.reports.group_by import Naming, write_day
from bursar.api.http.request import RequestContext
from bursar.control.queries.full_ledger import job_detail_since_ms, replay_books
from bursar.core.state.fleet_state import FleetState
from bursar.model.calendar import period_around
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Pool
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.tenants.tenant import BudgetPeriod, Tenant
from bursar.model.units import DAY_MS, SECOND_MS

FIRST_YEAR = 2000
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRange:
    """Whole days (UTC); the last one is not included."""

    from_ms: int
    to_ms: int

    @property
    def from_day(self) -> str:
        return write_day(self.from_ms)

    @property
    def to_day(self) -> str:
        return write_day(self.to_ms)

    def before(self) -> DayRange:
        """As many days just before it."""
        return DayRange(from_ms=2 * self.from_ms - self.to_ms, to_ms=self.from_ms)


def read_day(name: str, text: str) -> int:
    """``2026-11-16`` as the moment at which it begins."""
    try:
        day = date.fromisoformat(text)
        if day.year < FIRST_YEAR:
            raise ValueError(text)
    except ValueError as error:
        raise UserError(
            f"{name} is {text[:40]!r}, which is no day.",
            fix=f"Write a day of {FIRST_YEAR} or later as YYYY-MM-DD, for example 2026-11-16.",
            code="bad-period",
        ) from error
    begins = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(begins.timestamp()) * SECOND_MS


def read_span(
    query: Mapping[str, Any], now_ms: int, names: tuple[str, str] | None = None
) -> DayRange:
    """From one day to another; without them, this month so far."""
    first, last = names or ("from", "to")
    tomorrow_ms = now_ms // DAY_MS * DAY_MS + DAY_MS
    to_ms = read_day(last, query[last]) if last in query else tomorrow_ms
    if first in query:
        from_ms = read_day(first, query[first])
    else:
        from_ms = period_around(BudgetPeriod.MONTH, to_ms - 1)[0]
    return checked(DayRange(from_ms=from_ms, to_ms=to_ms))


def checked(span: DayRange) -> DayRange:
    """At least one day."""
    if span.from_ms >= span.to_ms:
        raise UserError(
            f"from {span.from_day} to {span.to_day} is no day at all: the end is not included.",
            fix="Let 'to' be the day after the last one that is meant.",
            code="bad-period",
        )
    return span


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A copy of the books of some days, and what is known of those who are in them."""

    books: Books
    tenants: tuple[Tenant, ...]
    pools: Mapping[str, Pool]
    now_ms: int

    def naming(self, tags: Mapping[str, JobLabel] | None = None) -> Naming:
        return Naming(self.tenants, tags)


async def excerpt(
    call: RequestContext, span: DayRange, queues: frozenset[str] | None, *, with_jobs: bool = False
) -> Excerpt:
    """The books of these days, of these queues alone or of everything.

    ``with_jobs`` says that single jobs must be known. Of days for which the live books know only
    queues, the log is read once more.
    """

    def question(ledger: Ledger, state: FleetState, now_ms: int) -> Excerpt:
        return Excerpt(
            books=ledger.at(now_ms).between(span.from_ms, span.to_ms, queues),
            tenants=tuple(tenant for _, tenant in sorted(state.tenants.items())),
            pools={name: pool.spec for name, pool in sorted(state.pools.items())},
            now_ms=now_ms,
        )

    found = await call.desk.query_ledger(question)
    if not with_jobs or span.from_ms >= job_detail_since_ms(found.now_ms):
        return found
    old = await call.desk.read(replay_books, call.desk.plane.reader, found.now_ms)
    books = old.between(span.from_ms, span.to_ms, queues)
    return Excerpt(books=books, tenants=found.tenants, pools=found.pools, now_ms=found.now_ms)


async def tags_of(call: RequestContext, books: Books) -> Mapping[str, JobLabel]:
    """Whose the jobs in the books are."""
    return await call.desk.read(call.desk.plane.reader.tags, books.job_ids())
