"""Budgets beside a meter: follows the log, knows when to look at them again, and says what has changed.

Looking costs a walk over all that runs, so it is done only when a step can have been reached: between two
looks the next is foretold from what was spent and what the attempts of a tenant cost an hour. A start makes
that more at once; an end is noticed at the next look, which then was too early and not too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from bursar.accounting.budgets.budget import (
    NEVER_MS,
    BudgetStatus,
    BudgetTree,
    Committed,
    accrued_without_hold,
    committed,
    due,
    standings,
)
from bursar.accounting.budgets.spending import SpendingTotals
from bursar.accounting.ledger.meter import Meter
from bursar.model import event as ev
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import HOUR_MS, SECOND_MS

SOONEST_MS = SECOND_MS
"""Looks are at least so far apart, unless something was declared."""


class _Course:
    """How a budget is expected to go on until its next look."""

    __slots__ = ("at_ms", "end_ms", "hourly", "left")

    def __init__(self, at_ms: int, end_ms: int, hourly: int, left: int | None) -> None:
        self.at_ms = at_ms
        self.end_ms = end_ms
        self.hourly = hourly
        self.left = left

    def look_ms(self) -> int:
        if self.left is None or not self.hourly:
            return self.end_ms
        return min(self.end_ms, self.at_ms - (-self.left * HOUR_MS // self.hourly) + 1)

    def steepen(self, at_ms: int, hourly: int) -> int:
        """Something more runs; when to look now."""
        if self.left is not None and at_ms > self.at_ms:
            self.left = max(0, self.left - self.hourly * (at_ms - self.at_ms) // HOUR_MS)
            self.at_ms = at_ms
        self.hourly += hourly
        return self.look_ms()


class BudgetMonitor:
    """``next_check_ms`` says when to call ``look``. The meter must be told of an event first."""

    def __init__(self, meter: Meter, spending: SpendingTotals | None = None) -> None:
        self.spending = SpendingTotals() if spending is None else spending
        self.next_check_ms = NEVER_MS
        self.tree = BudgetTree()
        self.follow(meter)
        self._tenants: dict[str, Tenant] = {}
        self._courses: dict[str, _Course] = {}
        self._looked_ms = -SOONEST_MS
        self._accrued: dict[str, tuple[int, int]] = {}
        self._hear: dict[type, Callable[..., None]] = {
            ev.JobSubmitted: self.spending.apply,
            ev.FleetDeclared: self._declared,
            ev.TenantChanged: self._tenant_changed,
        }

    def follow(self, meter: Meter) -> None:
        """Read what is not posted yet from this meter."""
        self.meter = meter
        meter.over = self.spending.over

    def apply(self, event: ev.LoggedEvent) -> None:
        """Bring the budgets up to an event that the meter knows."""
        hear = self._hear.get(type(event))
        if hear is not None:
            hear(event)

    def set_tenants(self, tenants: Iterable[Tenant]) -> None:
        """Whose budgets they are from now on; to be looked at at once."""
        self._tenants = {one.name: one for one in tenants}
        self.tree = BudgetTree(self._tenants.values())
        self._courses.clear()
        self._accrued.clear()
        self.next_check_ms = 0 if self.tree.budgets else NEVER_MS
        for kind in (ev.AttemptAssigned, ev.PriceChanged):
            self._hear.pop(kind, None)
        if self.tree.budgets:
            self._hear |= {ev.AttemptAssigned: self._assigned, ev.PriceChanged: self._repriced}

    def _declared(self, event: ev.FleetDeclared) -> None:
        self.set_tenants(event.tenants)

    def _tenant_changed(self, event: ev.TenantChanged) -> None:
        self.set_tenants((self._tenants | {event.tenant.name: event.tenant}).values())

    def _assigned(self, event: ev.AttemptAssigned) -> None:
        queue = self.meter.jobs[event.job_id].queue
        for tenant in self.tree.above.get(queue, ()):
            course = self._courses.get(tenant)
            if course is not None:
                look_ms = course.steepen(event.at_ms, event.placement.all_micro_usd_per_hour)
                self._look_by(look_ms)

    def _repriced(self, event: ev.PriceChanged) -> None:
        self._look_by(event.at_ms)

    def _look_by(self, at_ms: int) -> None:
        self.next_check_ms = min(self.next_check_ms, max(at_ms, self._looked_ms + SOONEST_MS))

    # -- looking ---------------------------------------------------------------------------------

    def look(
        self, known: Mapping[str, ev.BudgetLevelChanged], now_ms: int
    ) -> list[ev.BudgetLevelChanged]:
        """What has changed against the levels that are known; nothing until it is time."""
        if now_ms < self.next_check_ms:
            return []
        found = self.standings(now_ms)
        self._looked_ms, self.next_check_ms = now_ms, NEVER_MS
        for one in found:
            next_step, spent = one.next_step_micro_usd, one.spent_micro_usd
            course = self._courses[one.tenant] = _Course(
                now_ms,
                one.period_end_ms,
                one.micro_usd_per_hour,
                None if next_step is None else next_step - spent,
            )
            self._look_by(course.look_ms())
        return due(found, known, now_ms)

    def look_again(self) -> None:
        """What was found could not be written down."""
        self.next_check_ms = 0

    def standings(self, now_ms: int) -> list[BudgetStatus]:
        """Where every budget stands now."""
        return standings(self.tree, self.spending, self.meter, now_ms)

    def committed(self, tenant: str, now_ms: int) -> Committed:
        """What is spent and promised of one budget.

        What jobs without a hold have accrued is looked at once a second: that means a walk over all that
        runs, and there are such jobs only where the budget is younger than they are.
        """
        known = committed(tenant, self.tree, self.spending, now_ms)
        at_ms, accrued = self._accrued.get(tenant, (now_ms - SOONEST_MS, 0))
        if not at_ms <= now_ms < at_ms + SOONEST_MS:
            accrued = accrued_without_hold(tenant, self.tree, self.spending, self.meter, now_ms)
            self._accrued[tenant] = now_ms, accrued
        return replace(known, spent_micro_usd=known.spent_micro_usd + accrued)

    # -- stopping and going on -------------------------------------------------------------------

    def to_snapshot(self) -> dict[str, Any]:
        """Plain values; tenants and levels are the state's to carry."""
        return self.spending.to_snapshot()
