"""Budgets against what was spent: where each stands, which step it has reached, what may still be held.

``spent`` is what the queues at or below a tenant used and wasted in the period; ``held`` is what their open
jobs may still be charged beyond that. As a job runs, its money moves from one to the other, so what is
committed (both together) changes only when a job comes or goes.
"""

from __future__ import annotations

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
    """Which budgets are above which queue, and which queues are below which budget."""

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
    at = tenants.get(name)
    while at is not None:
        yield at.name
        at = tenants.get(at.parent or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """One budget at one moment."""

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
    """What its live attempts cost now."""
    level: int
    next_step_micro_usd: int | None
    """What must be spent for the next step; None after the last."""

    @property
    def committed_micro_usd(self) -> int:
        return self.spent_micro_usd + self.held_micro_usd

    @property
    def left_micro_usd(self) -> int:
        """What new jobs can still have."""
        return max(0, self.amount_micro_usd - self.committed_micro_usd)

    @property
    def percent(self) -> int:
        if not self.amount_micro_usd:
            return 100
        return self.spent_micro_usd * 100 // self.amount_micro_usd

    @property
    def exhausted_at_ms(self) -> int | None:
        """When all is spent if things go on as now; None if that is not within the period."""
        left = self.amount_micro_usd - self.spent_micro_usd
        if left <= 0:
            return self.at_ms
        if not self.micro_usd_per_hour:
            return None
        at_ms = self.at_ms - (-left * HOUR_MS // self.micro_usd_per_hour)
        return at_ms if at_ms < self.period_end_ms else None


def standings(
    tree: BudgetTree, spending: SpendingTotals, meter: Meter, now_ms: int
) -> list[BudgetStatus]:
    """Where every budget stands, to the micro-dollar for each attempt that runs."""
    found = []
    for period in sorted({budget.period for budget in tree.budgets.values()}):
        from_ms, to_ms = period_around(period, now_ms)
        names = [name for name, budget in tree.budgets.items() if budget.period is period]
        queues = {queue for name in names for queue in tree.queues[name]}
        sums = _Sums(spending, accruals(meter, queues, now_ms, from_ms))
        for name in names:
            posted = sum(spending.posted(queue, from_ms, to_ms) for queue in tree.queues[name])
            found.append(_standing(name, tree, sums, (now_ms, posted)))
    return sorted(found, key=lambda one: one.tenant)


class _Sums:
    """What has come together by queue: money, money of this period, money an hour, held beyond it."""

    def __init__(self, spending: SpendingTotals, found: Iterator[Accrual]) -> None:
        self.recent: dict[str, int] = {}
        self.hourly: dict[str, int] = {}
        self.held = dict(spending.held)
        by_job: dict[str, int] = {}
        for one in found:
            queue = one.queue
            self.recent[queue] = self.recent.get(queue, 0) + one.in_period_micro_usd
            self.hourly[queue] = self.hourly.get(queue, 0) + one.micro_usd_per_hour
            by_job[one.job_id] = by_job.get(one.job_id, 0) + one.micro_usd
        for job_id, micro_usd in by_job.items():
            hold = spending.holds.get(job_id)
            if hold is not None:
                self.held[hold.queue] -= min(hold.left_micro_usd, micro_usd)


def _standing(name: str, tree: BudgetTree, sums: _Sums, at: tuple[int, int]) -> BudgetStatus:
    now_ms, posted = at
    budget, queues = tree.budgets[name], tree.queues[name]
    from_ms, to_ms = period_around(budget.period, now_ms)
    spent = posted + sum(sums.recent.get(queue, 0) for queue in queues)
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
        micro_usd_per_hour=sum(sums.hourly.get(queue, 0) for queue in queues),
        level=level,
        next_step_micro_usd=-(-min(later) * budget.amount_micro_usd // 100) if later else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What is gone of a budget, and what is promised."""

    spent_micro_usd: int
    held_micro_usd: int

    @property
    def micro_usd(self) -> int:
        return self.spent_micro_usd + self.held_micro_usd


def committed(tenant: str, tree: BudgetTree, spending: SpendingTotals, now_ms: int) -> Committed:
    """What is committed of one budget, without looking at what runs.

    For jobs with a hold what is not posted yet need not be known: it is held if it is not spent. What
    others have accrued (``accrued_without_hold``) is to be added.
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
    """What jobs for which nothing is held (they came before the budget) cost since it was last posted."""
    unheld = [queue for queue in tree.queues[tenant] if spending.unheld.get(queue)]
    if not unheld:
        return 0
    from_ms = period_around(tree.budgets[tenant].period, now_ms)[0]
    return sum(
        one.in_period_micro_usd
        for one in accruals(meter, unheld, now_ms, from_ms)
        if one.job_id not in spending.holds
    )


def due(
    found: Sequence[BudgetStatus], known: Mapping[str, BudgetLevelChanged], now_ms: int
) -> list[BudgetLevelChanged]:
    """What is to be written down: budgets that are at another level than the log says."""
    changes = []
    for one in found:
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
    """Whether the level was reached in this period, of this amount."""
    said = (last.period_start_ms, last.amount_micro_usd)
    return said == (now.period_start_ms, now.amount_micro_usd)
