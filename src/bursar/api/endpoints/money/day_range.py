"""Day ranges of cost requests, and excerpts of the ledger for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.reports.group_by import Naming, write_day
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter
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
FROM = Parameter("from", "The first day (UTC); by default, the first of this month.", pattern=DAY)
TO = Parameter("to", "The day after the last one; by default, tomorrow.", pattern=DAY)
TENANT = Parameter("tenant", "Only this tenant.")


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
        """As many days just before."""
        return DayRange(from_ms=2 * self.from_ms - self.to_ms, to_ms=self.from_ms)


def read_day(name: str, text: str) -> int:
    """The start of a day such as ``2026-11-16``, in UTC."""
    try:
        day = date.fromisoformat(text)
        if day.year < FIRST_YEAR:
            raise ValueError(text)
    except ValueError as error:
        raise UserError(
            f"{name} is {text[:40]!r}, which is not a day.",
            fix=f"Write a day of {FIRST_YEAR} or later as YYYY-MM-DD, for example 2026-11-16.",
            code="bad-period",
        ) from error
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(start.timestamp()) * SECOND_MS


def read_days(query: Mapping[str, Any], now_ms: int) -> DayRange:
    """The range of ``from`` and ``to``; by default, this month so far."""
    tomorrow_ms = now_ms // DAY_MS * DAY_MS + DAY_MS
    to_ms = read_day("to", query["to"]) if "to" in query else tomorrow_ms
    if "from" in query:
        from_ms = read_day("from", query["from"])
    else:
        from_ms = period_around(BudgetPeriod.MONTH, to_ms - 1)[0]
    return require_days(DayRange(from_ms=from_ms, to_ms=to_ms))


def require_days(days: DayRange) -> DayRange:
    """Refuses an empty range."""
    if days.from_ms >= days.to_ms:
        raise UserError(
            f"the range from {days.from_day} to {days.to_day} is empty: its end is not included.",
            fix="Set 'to' to the day after the last one.",
            code="bad-period",
        )
    return days


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A copy of the ledger of some days, with the tenants and pools."""

    books: Books
    tenants: tuple[Tenant, ...]
    pools: Mapping[str, Pool]
    now_ms: int

    def naming(self, labels: Mapping[str, JobLabel] | None = None) -> Naming:
        return Naming(self.tenants, labels)


async def read_excerpt(
    request: RequestContext,
    days: DayRange,
    queues: frozenset[str] | None,
    *,
    with_jobs: bool = False,
) -> Excerpt:
    """Copies the ledger of these days, for these queues or (None) for everything.

    ``with_jobs`` requires entries of single jobs. The live ledger drops those of old days; then they
    are computed again from the log.
    """

    def query(ledger: Ledger, state: FleetState, now_ms: int) -> Excerpt:
        return Excerpt(
            books=ledger.at(now_ms).between(days.from_ms, days.to_ms, queues),
            tenants=tuple(tenant for _, tenant in sorted(state.tenants.items())),
            pools={name: pool.spec for name, pool in sorted(state.pools.items())},
            now_ms=now_ms,
        )

    excerpt = await request.context.query_ledger(query)
    if not with_jobs or days.from_ms >= job_detail_since_ms(excerpt.now_ms):
        return excerpt
    full = await request.read_store(replay_books, excerpt.now_ms)
    return replace(excerpt, books=full.between(days.from_ms, days.to_ms, queues))


async def job_labels(request: RequestContext, books: Books) -> Mapping[str, JobLabel]:
    """Names, owners and labels of the jobs in the ledger."""
    return await request.read_store(lambda store: store.tags(books.job_ids()))
