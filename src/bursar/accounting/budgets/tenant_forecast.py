"""Burn-downs of tenants: spending of all queues at or below each, against its budget if any."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from bursar.accounting.budgets.burn_down import MOST_DAYS, BurnDown, SpendingHistory, burn_down
from bursar.accounting.reports.payer import PayerTree
from bursar.model.calendar import period_around
from bursar.model.tenants.tenant import Budget, BudgetPeriod, Tenant
from bursar.model.units import DAY_MS

QueueDays = Mapping[tuple[int, str], int]
"""Micro-dollars by day and queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSpending:
    """Spending of all queues by day, and when the books began."""

    days: QueueDays
    began_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantForecast:
    """The burn-down of one tenant. Without a budget the period is the month."""

    tenant: str
    period: BudgetPeriod
    from_ms: int
    to_ms: int
    budget: Budget | None
    burn_down: BurnDown


def history_start_ms(tenants: Iterable[Tenant], now_ms: int) -> int:
    """The first day that a forecast of these tenants needs."""
    period_starts = [period_around(_period(one), now_ms)[0] for one in tenants]
    return min([*period_starts, now_ms // DAY_MS * DAY_MS - MOST_DAYS * DAY_MS])


def default_tenants(tenants: Collection[Tenant]) -> tuple[str, ...]:
    """The tenants with a budget; if there are none, the tenants without a parent."""
    budgeted = sorted(one.name for one in tenants if one.budget is not None)
    if budgeted:
        return tuple(budgeted)
    names = {one.name for one in tenants}
    return tuple(sorted(one.name for one in tenants if one.parent not in names))


def forecasts(
    spent: TenantSpending, tenants: Collection[Tenant], wanted: Iterable[str]
) -> tuple[TenantForecast, ...]:
    """One forecast for each wanted tenant, in that order."""
    by_name = {one.name: one for one in tenants}
    tree = PayerTree(tenants)
    days: dict[str, dict[int, int]] = {}
    for (day_ms, queue), micro_usd in spent.days.items():
        for name in tree.upwards(queue):
            tenant_days = days.setdefault(name, {})
            tenant_days[day_ms] = tenant_days.get(day_ms, 0) + micro_usd
    return tuple(_forecast(by_name[name], days.get(name, {}), spent) for name in wanted)


def _forecast(tenant: Tenant, days: Mapping[int, int], spent: TenantSpending) -> TenantForecast:
    period, now_ms = _period(tenant), spent.now_ms
    from_ms, to_ms = period_around(period, now_ms)
    today_ms = now_ms // DAY_MS * DAY_MS
    first_whole_ms = -(-spent.began_ms // DAY_MS) * DAY_MS
    earliest_ms = max(first_whole_ms, today_ms - MOST_DAYS * DAY_MS)
    spending = SpendingHistory(
        from_ms=from_ms,
        to_ms=to_ms,
        now_ms=now_ms,
        spent_micro_usd=sum(usd for day_ms, usd in days.items() if day_ms >= from_ms),
        days={day_ms: days.get(day_ms, 0) for day_ms in range(earliest_ms, today_ms, DAY_MS)},
        since_ms=max(from_ms, spent.began_ms),
    )
    amount = None if tenant.budget is None else tenant.budget.amount_micro_usd
    return TenantForecast(
        tenant=tenant.name,
        period=period,
        from_ms=from_ms,
        to_ms=to_ms,
        budget=tenant.budget,
        burn_down=burn_down(spending, amount),
    )


def _period(tenant: Tenant) -> BudgetPeriod:
    return BudgetPeriod.MONTH if tenant.budget is None else tenant.budget.period
