"""Follows the log next to a meter, schedules checks of budgets and reports level changes.

A check reads all running attempts, so it runs only when a step can have been reached. The time of the next
check is predicted from what was spent and from the hourly cost of the tenant's attempts. A start raises that
cost at once; an end is noticed at the next check, which is then too early but never too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bursar.accounting.budgets.budget import (
    NEVER_MS,
    BudgetStatus,
    BudgetTree,
    Committed,
    budget_statuses,
    level_changes,
)
from bursar.accounting.budgets.spending import SpendingTotals, accruals
from bursar.accounting.ledger.meter import Meter
from bursar.model import event as ev
from bursar.model.calendar import period_around
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS, SECOND_MS

MIN_INTERVAL_MS = SECOND_MS
"""Minimum time between two checks, unless tenants change."""


@dataclass(slots=True)
class _Prediction:
    """When a budget reaches its next step, at the current hourly cost."""

    at_ms: int
    end_ms: int
    hourly: int
    until_step: int | None

    def check_ms(self) -> int:
        if self.until_step is None or not self.hourly:
            return self.end_ms
        return min(self.end_ms, self.at_ms - (-self.until_step * HOUR_MS // self.hourly) + 1)

    def add_hourly(self, at_ms: int, hourly: int) -> int:
        """Adds the cost of a new attempt; returns the new time of the check."""
        if self.until_step is not None and at_ms > self.at_ms:
            spent = self.hourly * (at_ms - self.at_ms) // HOUR_MS
            self.until_step = max(0, self.until_step - spent)
            self.at_ms = at_ms
        self.hourly += hourly
        return self.check_ms()


class BudgetMonitor:
    """Call ``check`` at ``next_check_ms``. Apply each event to the meter first."""

    def __init__(self, meter: Meter, spending: SpendingTotals | None = None) -> None:
        self.spending = SpendingTotals() if spending is None else spending
        self.next_check_ms = NEVER_MS
        self.tree = BudgetTree()
        self.follow(meter)
        self._tenants: dict[str, Tenant] = {}
        self._predictions: dict[str, _Prediction] = {}
        self._checked_ms = -MIN_INTERVAL_MS
        self._accrued: dict[str, tuple[int, int]] = {}
        self._apply: dict[type, Callable[..., None]] = {
            ev.JobSubmitted: self.spending.apply,
            ev.FleetDeclared: self._declared,
            ev.TenantChanged: self._tenant_changed,
        }

    def follow(self, meter: Meter) -> None:
        """Reads accruals from this meter from now on."""
        self.meter = meter
        meter.on_job_closed = self.spending.close_job

    def apply(self, event: ev.LoggedEvent) -> None:
        """Applies an event that the meter has already applied."""
        applier = self._apply.get(type(event))
        if applier is not None:
            applier(event)

    def set_tenants(self, tenants: Iterable[Tenant]) -> None:
        """Replaces all tenants; their budgets are checked at once."""
        self._tenants = {one.name: one for one in tenants}
        self.tree = BudgetTree(self._tenants.values())
        self._predictions.clear()
        self._accrued.clear()
        self.next_check_ms = 0 if self.tree.budgets else NEVER_MS
        for kind in (ev.AttemptAssigned, ev.PriceChanged):
            self._apply.pop(kind, None)
        if self.tree.budgets:
            self._apply |= {ev.AttemptAssigned: self._assigned, ev.PriceChanged: self._repriced}

    def _declared(self, event: ev.FleetDeclared) -> None:
        self.set_tenants(event.tenants)

    def _tenant_changed(self, event: ev.TenantChanged) -> None:
        self.set_tenants((self._tenants | {event.tenant.name: event.tenant}).values())

    def _assigned(self, event: ev.AttemptAssigned) -> None:
        queue = self.meter.jobs[event.job_id].queue
        for tenant in self.tree.above.get(queue, ()):
            prediction = self._predictions.get(tenant)
            if prediction is not None:
                hourly = event.placement.all_micro_usd_per_hour
                self._check_by(prediction.add_hourly(event.at_ms, hourly))

    def _repriced(self, event: ev.PriceChanged) -> None:
        self._check_by(event.at_ms)

    def _check_by(self, at_ms: int) -> None:
        earliest_ms = self._checked_ms + MIN_INTERVAL_MS
        self.next_check_ms = min(self.next_check_ms, max(at_ms, earliest_ms))

    # -- checks ----------------------------------------------------------------------------------

    def check(
        self, known: Mapping[str, ev.BudgetLevelChanged], now_ms: int
    ) -> list[ev.BudgetLevelChanged]:
        """Level changes against the known levels; none before ``next_check_ms``."""
        if now_ms < self.next_check_ms:
            return []
        statuses = self.statuses(now_ms)
        self._checked_ms, self.next_check_ms = now_ms, NEVER_MS
        for one in statuses:
            next_step, spent = one.next_step_micro_usd, one.spent_micro_usd
            prediction = self._predictions[one.tenant] = _Prediction(
                now_ms,
                one.period_end_ms,
                one.micro_usd_per_hour,
                None if next_step is None else next_step - spent,
            )
            self._check_by(prediction.check_ms())
        return level_changes(statuses, known, now_ms)

    def check_again(self) -> None:
        """Repeats the check at once, because its result could not be committed."""
        self.next_check_ms = 0

    def statuses(self, now_ms: int) -> list[BudgetStatus]:
        """The status of every budget now."""
        return budget_statuses(self.tree, self.spending, self.meter, now_ms)

    def committed(self, tenant: str, now_ms: int) -> Committed:
        """What is spent of one budget and what is held, without reading all running attempts.

        The accruals of jobs with a hold are part of the hold until they are posted. Those of jobs without
        a hold are cached for a second, because they need a pass over all running attempts.
        """
        from_ms, to_ms = period_around(self.tree.budgets[tenant].period, now_ms)
        queues, spending = self.tree.queues[tenant], self.spending
        at_ms, accrued = self._accrued.get(tenant, (now_ms - MIN_INTERVAL_MS, 0))
        if not at_ms <= now_ms < at_ms + MIN_INTERVAL_MS:
            accrued = self._accrued_without_hold(queues, now_ms, from_ms)
            self._accrued[tenant] = now_ms, accrued
        return Committed(
            spent_micro_usd=accrued + sum(spending.posted(one, from_ms, to_ms) for one in queues),
            held_micro_usd=sum(spending.held.get(one, 0) for one in queues),
        )

    def _accrued_without_hold(self, queues: Iterable[str], now_ms: int, from_ms: int) -> int:
        """Accruals of jobs without a hold: those submitted before the budget existed."""
        unheld = [queue for queue in queues if self.spending.unheld.get(queue)]
        if not unheld:
            return 0
        return sum(
            one.in_period_micro_usd
            for one in accruals(self.meter, unheld, now_ms, from_ms)
            if one.job_id not in self.spending.holds
        )
