"""Requests that change prices: providers' bills for past days, and new prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bursar.accounting.ledger.meter import LATE_MS
from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit, WriteRequest
from bursar.model.calendar import write_time
from bursar.model.errors import UserError
from bursar.model.event import BillReceived, PriceChanged
from bursar.model.tenants.identity import Identity
from bursar.model.units import DAY_MS, HOUR_MS, write_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """A provider's bill for a pool over whole days (UTC). Default: the pool's current flavor."""

    pool: str
    from_ms: int
    to_ms: int
    billed_micro_usd: int
    flavor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """A recorded bill, and what was metered for its period."""

    bill: BillReceived
    metered_micro_usd: int

    @property
    def adjustment_micro_usd(self) -> int:
        return self.bill.billed_micro_usd - self.metered_micro_usd


@dataclass(slots=True, kw_only=True)
class RecordBill(WriteRequest[Billed]):
    """Adjust the ledger of a past period to a bill."""

    caller: Identity
    bill: Bill
    alone = True

    def prepare(self, transaction: Transaction) -> AfterCommit:
        bill = self.bill
        _check_period(bill, transaction.now_ms)
        flavor = bill.flavor or self._flavor_now(transaction)
        books = transaction.live.books.ledger.at(transaction.now_ms)
        metered = books.capacity_micro_usd(bill.pool, flavor, bill.from_ms, bill.to_ms)
        if not metered:
            raise UserError(
                f"nothing of {bill.pool!r} ({flavor}) was metered from {write_time(bill.from_ms)} "
                f"to {write_time(bill.to_ms)}; a bill of {write_usd(bill.billed_micro_usd)} cannot "
                "be charged to any tenant.",
                fix="Check pool, flavor and days: 'bursar cost report --by pool,day' lists metered days.",
                code="nothing-metered",
            )
        event = BillReceived(
            at_ms=transaction.now_ms,
            pool=bill.pool,
            flavor=flavor,
            from_ms=bill.from_ms,
            to_ms=bill.to_ms,
            billed_micro_usd=bill.billed_micro_usd,
        )
        transaction.events.append(event)
        transaction.record_action(self.caller, BillReceived.__name__, bill.pool)
        result = Billed(bill=event, metered_micro_usd=metered)
        return lambda: result

    def _flavor_now(self, transaction: Transaction) -> str:
        pool = transaction.state.pools.get(self.bill.pool)
        if pool is None:
            known = ", ".join(sorted(transaction.state.pools)[:20])
            raise UserError(
                f"there is no pool {self.bill.pool[:80]!r} in the fleet now.",
                fix=f"Write one of {known}; for a removed pool, write its flavor too.",
                code="unknown-pool",
            )
        return pool.spec.flavor


def _check_period(bill: Bill, now_ms: int) -> None:
    if bill.from_ms % DAY_MS or bill.to_ms % DAY_MS or bill.from_ms >= bill.to_ms:
        raise UserError(
            "a bill covers whole days (UTC), at least one.",
            fix="Write its first day and the day after its last.",
            code="bad-period",
        )
    if bill.to_ms > (now_ms - LATE_MS) // HOUR_MS * HOUR_MS:
        raise UserError(
            f"the bill's period ends {write_time(bill.to_ms)} and is not over yet.",
            fix="Wait until an hour after its end, when all of it is metered.",
            code="period-not-over",
        )
    if bill.billed_micro_usd < 0:
        raise UserError(
            f"the bill is {write_usd(bill.billed_micro_usd)}.",
            fix="Write the total that was billed, 0 or more.",
            code="wrong-value",
        )


@dataclass(slots=True, kw_only=True)
class ChangePrices(WriteRequest[tuple[PriceChanged, ...]]):
    """Change the prices of pools. Removed pools and unchanged prices are skipped."""

    changes: Sequence[PriceChanged]

    def prepare(self, transaction: Transaction) -> AfterCommit:
        changed: list[PriceChanged] = []
        for change in self.changes:
            pool = transaction.state.pools.get(change.pool)
            if pool is None:
                continue
            event = replace(change, at_ms=transaction.now_ms)
            if pool.spec.node_micro_usd_per_hour == event.node_micro_usd_per_hour:
                continue
            if transaction.add(event, change.pool):
                changed.append(event)
        return lambda: tuple(changed)
