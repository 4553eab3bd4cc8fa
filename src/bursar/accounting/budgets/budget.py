"""The status of each budget: spent, held, committed, and the step it has reached.

``spent`` is what the queues at or below a tenant used and wasted in the period; ``held`` is what their open
jobs may still be charged. While a job runs, money moves from held to spent, so the sum (committed) changes
only when a job is submitted or finishes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bursar.accounting.budgets.spending import Accrual, BudgetHold, SpendingTotals, accruals
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.reports.payer import upwards
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
            above = tuple(name for name in upwards(known, queue) if name in self.budgets)
            if above:
                self.above[queue] = above
            hard = tuple(name for name in above if self.is_hard(name))
            if hard:
                self.hard_above[queue] = hard
            for name in above:
                self.queues[name].append(queue)

    def is_hard(self, tenant: str) -> bool:
        return self.budgets[tenant].enforcement is Enforcement.HARD


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
        names = [name for name, budget in tree.budgets.items() if budget.period is period]
        queues = {queue for name in names for queue in tree.queues[name]}
        sums = _PeriodSums(spending, queues, period, now_ms)
        sums.add_accruals(accruals(meter, queues, now_ms, sums.from_ms), spending.holds)
        statuses += [_status(name, tree, sums) for name in names]
    return sorted(statuses, key=lambda one: one.tenant)


class _PeriodSums:
    """Sums by queue: what is spent in the current period, what is held beyond it, and the hourly cost."""

    def __init__(
        self, spending: SpendingTotals, queues: Collection[str], period: BudgetPeriod, now_ms: int
    ) -> None:
        self.now_ms = now_ms
        self.from_ms, self.to_ms = period_around(period, now_ms)
        self.spent = {one: spending.posted(one, self.from_ms, self.to_ms) for one in queues}
        self.hourly = dict.fromkeys(queues, 0)
        self.held = dict(spending.held)

    def add_accruals(self, unposted: Iterable[Accrual], holds: Mapping[str, BudgetHold]) -> None:
        """Counts accruals as spent; those of a job with a hold are no longer held."""
        by_job: Counter[str] = Counter()
        for accrual in unposted:
            self.spent[accrual.queue] += accrual.in_period_micro_usd
            self.hourly[accrual.queue] += accrual.micro_usd_per_hour
            by_job[accrual.job_id] += accrual.micro_usd
        for job_id, micro_usd in by_job.items():
            hold = holds.get(job_id)
            if hold is not None:
                self.held[hold.queue] -= min(hold.left_micro_usd, micro_usd)


def _status(name: str, tree: BudgetTree, sums: _PeriodSums) -> BudgetStatus:
    budget, queues = tree.budgets[name], tree.queues[name]
    spent = sum(sums.spent[queue] for queue in queues)
    level = budget.level_of(spent)
    later = [one.at_percent for one in budget.effective_steps if one.at_percent > level]
    return BudgetStatus(
        tenant=name,
        at_ms=sums.now_ms,
        amount_micro_usd=budget.amount_micro_usd,
        period=budget.period,
        enforcement=budget.enforcement,
        period_start_ms=sums.from_ms,
        period_end_ms=sums.to_ms,
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
