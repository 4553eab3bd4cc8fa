"""What changes prices: a bill of a provider's, for what is past, and what a cloud asks from now on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from bursar.accounting.ledger.meter import LATE_MS
from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import Answer, new_audit_entry
from bursar.model.calendar import write_time
from bursar.model.errors import UserError
from bursar.model.event import BillReceived, PriceChanged
from bursar.model.tenants.identity import Identity
from bursar.model.units import DAY_MS, HOUR_MS, write_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What somebody says a pool was billed for whole days (UTC). Without a flavor, the pool's of today."""

    pool: str
    from_ms: int
    to_ms: int
    billed_micro_usd: int
    flavor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """What came of it: what was metered before, and what the difference is now booked as."""

    bill: BillReceived
    metered_micro_usd: int

    @property
    def adjustment_micro_usd(self) -> int:
        return self.bill.billed_micro_usd - self.metered_micro_usd


@dataclass(slots=True, kw_only=True)
class TakeBill:
    """Bring the books of a period that is over to a real bill."""

    who: Identity
    bill: Bill
    future: Future[Billed] = field(default_factory=Future)
    alone: bool = True

    def prepare(self, group: Transaction) -> Answer:
        bill = self.bill
        _check_period(bill, group.now_ms)
        flavor = bill.flavor or self._flavor_now(group)
        books = group.live.books.books_at(group.now_ms)
        metered = books.capacity_micro_usd(bill.pool, flavor, bill.from_ms, bill.to_ms)
        if not metered:
            raise UserError(
                f"nothing of {bill.pool!r} ({flavor}) was metered from {write_time(bill.from_ms)} "
                f"to {write_time(bill.to_ms)}; a bill of {write_usd(bill.billed_micro_usd)} would "
                "be nobody's.",
                fix="Check pool, flavor and days: 'bursar cost report --by pool,day' shows what there is.",
                code="nothing-metered",
            )
        event = BillReceived(
            at_ms=group.now_ms,
            pool=bill.pool,
            flavor=flavor,
            from_ms=bill.from_ms,
            to_ms=bill.to_ms,
            billed_micro_usd=bill.billed_micro_usd,
        )
        group.events.append(event)
        group.audit.append(
            new_audit_entry(self.who, BillReceived.__name__, bill.pool, group.now_ms)
        )
        answer = Billed(bill=event, metered_micro_usd=metered)
        return lambda: answer

    def _flavor_now(self, group: Transaction) -> str:
        pool = group.state.pools.get(self.bill.pool)
        if pool is None:
            known = ", ".join(sorted(group.state.pools)[:20])
            raise UserError(
                f"there is no pool {self.bill.pool[:80]!r} in the fleet now.",
                fix=f"Write one of {known}; for a pool that is gone, say its flavor too.",
                code="unknown-pool",
            )
        return pool.spec.flavor


def _check_period(bill: Bill, now_ms: int) -> None:
    if bill.from_ms % DAY_MS or bill.to_ms % DAY_MS or bill.from_ms >= bill.to_ms:
        raise UserError(
            "a bill covers whole days (UTC), at least one.",
            fix="Give its first day and the day after its last.",
            code="bad-period",
        )
    if bill.to_ms > (now_ms - LATE_MS) // HOUR_MS * HOUR_MS:
        raise UserError(
            f"the bill's period ends {write_time(bill.to_ms)} and is not over yet.",
            fix="Wait until an hour after its end: what is not metered yet cannot be compared.",
            code="period-not-over",
        )
    if bill.billed_micro_usd < 0:
        raise UserError(
            f"the bill is {write_usd(bill.billed_micro_usd)}.",
            fix="Write what was billed in all; 0 if nothing was.",
            code="wrong-value",
        )


@dataclass(slots=True, kw_only=True)
class ChangePrices:
    """Prices that a cloud asks from now on. What changed or went since they were read is left out."""

    changes: Sequence[PriceChanged]
    future: Future[tuple[PriceChanged, ...]] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
        taken: list[PriceChanged] = []
        for change in self.changes:
            pool = group.state.pools.get(change.pool)
            if pool is None:
                continue
            event = replace(change, at_ms=group.now_ms)
            if pool.spec.node_micro_usd_per_hour == event.node_micro_usd_per_hour:
                continue
            if group.note(event, change.pool):
                taken.append(event)
        answer = tuple(taken)
        return lambda: answer
