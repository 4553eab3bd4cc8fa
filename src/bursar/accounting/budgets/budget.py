"""The status of each budget: spent, held, committed, and the step it has reached.

``spent`` is what the queues at or below a tenant used and wasted in the period; ``held`` is what their open
jobs may still be charged. While a job runs, money moves from held to spent, so the sum (committed) changes
only when a job is submitted or finishes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bursar.accounting.budgets.spending import Accrual, SpendingTotals, accruals
from bursar.accounting.ledger.meter import Meter
from bursar.model.calendar import period_around
from bursar.model.event import BudgetLevelChanged
from bursar.model.tenants.tenant import Budget, BudgetPeriod, Enforcement, Tenant
from bursar.model.units import HOUR_MS

NEVER_MS = 1 << 62


class BudgetTree:
    """The budgets above each queue and the queues below each budget."""

    def __init__(self, tenants: Iterable[Tenant] = ()) -> None:
        known = {one.name: one for one in tenants}
        self.budgets: dict[str, Budget] = {
            name: one.budget for name, one in sorted(known.items()) if one.budget is not None
        }
        self.queues: dict[str, list[str]] = {name: [] for name in self.budgets}
        self.above: dict[str, tuple[str, ...]] = {}
        self.hard_above: dict[str, tuple[str, ...]] = {}
        for queue in sorted(name for name, one in known.items() if one.is_queue):
            above = tuple(name for name in _upwards(known, queue) if name in self.budgets)
            if above:
                self.above[queue] = above
            hard = tuple(name for name in above if self.is_hard(name))
            if hard:
                self.hard_above[queue] = hard
            for name in above:
                self.queues[name].append(queue)

    def is_hard(self, tenant: str) -> bool:
        return self.budgets[tenant].enforcement is Enforcement.HARD


def _upwards(tenants: Mapping[str, Tenant], name: str) -> Iterator[str]:
    tenant = tenants.get(name)
    while tenant is not None:
        yield tenant.name
        tenant = tenants.get(tenant.parent or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """One budget at one time."""

    tenant: str
    at_ms: int
    amount_micro_usd: int
    period: BudgetPeriod
    enforcement: Enforcement
    period_start_ms: int
    period_end_ms: int
    spent_micro_usd: int
    held_micro_usd: int
    micro_usd_per_hour: int
    """Current cost of its live attempts."""
    level: int
    next_step_micro_usd: int | None
    """Spending at which the next step is reached; None after the last."""

    @property
    def committed_micro_usd(self) -> int:
        return self.spent_micro_usd + self.held_micro_usd

    @property
    def left_micro_usd(self) -> int:
        """What new jobs can still be given."""
        return max(0, self.amount_micro_usd - self.committed_micro_usd)

    @property
    def percent(self) -> int:
        if not self.amount_micro_usd:
            return 100
        return self.spent_micro_usd * 100 // self.amount_micro_usd

    @property
    def exhausted_at_ms(self) -> int | None:
        """When the budget is spent at the current rate; None if not within the period."""
        unspent = self.amount_micro_usd - self.spent_micro_usd
        if unspent <= 0:
            return self.at_ms
        if not self.micro_usd_per_hour:
            return None
        at_ms = self.at_ms - (-unspent * HOUR_MS // self.micro_usd_per_hour)
        return at_ms if at_ms < self.period_end_ms else None


def budget_statuses(
    tree: BudgetTree, spending: SpendingTotals, meter: Meter, now_ms: int
) -> list[BudgetStatus]:
    """The status of every budget, to the micro-dollar for each running attempt."""
    statuses = []
    for period in sorted({budget.period for budget in tree.budgets.values()}):
        from_ms, to_ms = period_around(period, now_ms)
        names = [name for name, budget in tree.budgets.items() if budget.period is period]
        queues = {queue for name in names for queue in tree.queues[name]}
        sums = _Sums(spending, accruals(meter, queues, now_ms, from_ms))
        for name in names:
            posted = sum(spending.posted(queue, from_ms, to_ms) for queue in tree.queues[name])
            statuses.append(_status(name, tree, sums, (now_ms, posted)))
    return sorted(statuses, key=lambda one: one.tenant)


class _Sums:
    """Accruals by queue: in this period, per hour, and what is held beyond them."""

    def __init__(self, spending: SpendingTotals, unposted: Iterator[Accrual]) -> None:
        self.accrued: Counter[str] = Counter()
        self.hourly: Counter[str] = Counter()
        self.held = dict(spending.held)
        by_job: Counter[str] = Counter()
        for accrual in unposted:
            self.accrued[accrual.queue] += accrual.in_period_micro_usd
            self.hourly[accrual.queue] += accrual.micro_usd_per_hour
            by_job[accrual.job_id] += accrual.micro_usd
        for job_id, micro_usd in by_job.items():
            hold = spending.holds.get(job_id)
            if hold is not None:
                self.held[hold.queue] -= min(hold.left_micro_usd, micro_usd)


def _status(
    name: str, tree: BudgetTree, sums: _Sums, now_and_posted: tuple[int, int]
) -> BudgetStatus:
    now_ms, posted = now_and_posted
    budget, queues = tree.budgets[name], tree.queues[name]
    from_ms, to_ms = period_around(budget.period, now_ms)
    spent = posted + sum(sums.accrued[queue] for queue in queues)
    level = budget.level_of(spent)
    later = [one.at_percent for one in budget.effective_steps if one.at_percent > level]
    return BudgetStatus(
        tenant=name,
        at_ms=now_ms,
        amount_micro_usd=budget.amount_micro_usd,
        period=budget.period,
        enforcement=budget.enforcement,
        period_start_ms=from_ms,
        period_end_ms=to_ms,
        spent_micro_usd=spent,
        held_micro_usd=sum(sums.held.get(queue, 0) for queue in queues),
        micro_usd_per_hour=sum(sums.hourly[queue] for queue in queues),
        level=level,
        next_step_micro_usd=-(-min(later) * budget.amount_micro_usd // 100) if later else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What is spent of a budget and what is held for open jobs."""

    spent_micro_usd: int
    held_micro_usd: int

    @property
    def micro_usd(self) -> int:
        return self.spent_micro_usd + self.held_micro_usd


def committed(tenant: str, tree: BudgetTree, spending: SpendingTotals, now_ms: int) -> Committed:
    """What is committed of one budget, without reading the running attempts.

    The accruals of jobs with a hold are part of the hold until they are posted. The caller adds those of
    other jobs (``accrued_without_hold``).
    """
    from_ms, to_ms = period_around(tree.budgets[tenant].period, now_ms)
    queues = tree.queues[tenant]
    return Committed(
        spent_micro_usd=sum(spending.posted(queue, from_ms, to_ms) for queue in queues),
        held_micro_usd=sum(spending.held.get(queue, 0) for queue in queues),
    )


def accrued_without_hold(
    tenant: str, tree: BudgetTree, spending: SpendingTotals, meter: Meter, now_ms: int
) -> int:
    """Accruals of jobs without a hold: those submitted before the budget existed."""
    unheld = [queue for queue in tree.queues[tenant] if spending.unheld.get(queue)]
    if not unheld:
        return 0
    from_ms = period_around(tree.budgets[tenant].period, now_ms)[0]
    return sum(
        one.in_period_micro_usd
        for one in accruals(meter, unheld, now_ms, from_ms)
        if one.job_id not in spending.holds
    )


def level_changes(
    statuses: Sequence[BudgetStatus], known: Mapping[str, BudgetLevelChanged], now_ms: int
) -> list[BudgetLevelChanged]:
    """Events for budgets whose level differs from the last one in the log."""
    changes = []
    for one in statuses:
        last = known.get(one.tenant)
        before = 0 if last is None else last.level
        if one.level == before and (not one.level or last is None or _is_current(last, one)):
            continue
        changes.append(
            BudgetLevelChanged(
                at_ms=now_ms,
                tenant=one.tenant,
                level=one.level,
                spent_micro_usd=one.spent_micro_usd,
                amount_micro_usd=one.amount_micro_usd,
                period_start_ms=one.period_start_ms,
            )
        )
    return changes


def _is_current(last: BudgetLevelChanged, now: BudgetStatus) -> bool:
    """Whether the last change was in the same period and of the same amount."""
    return (last.period_start_ms, last.amount_micro_usd) == (
        now.period_start_ms,
        now.amount_micro_usd,
    )
