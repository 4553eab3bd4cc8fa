"""Budgets in a simulated run, metered like those of the live ledger.

Jobs of a trace were admitted elsewhere, so nothing is held for them at admission: a simulated budget only
applies its steps.
"""

from __future__ import annotations

from bursar.accounting.budgets.budget_monitor import BudgetMonitor
from bursar.accounting.budgets.spending import SpendingTotals
from bursar.accounting.ledger.meter import Meter
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.timers import NEVER_MS
from bursar.model.event import Event, FleetDeclared
from bursar.simulate.scenario import Scenario
from bursar.simulate.virtual_clock import BudgetCheck, VirtualClock


class SimulatedBudgets:
    """Meters every event after the state, and pushes level changes onto the clock."""

    def __init__(self, scenario: Scenario, state: FleetState, clock: VirtualClock) -> None:
        spending = SpendingTotals()
        self._meter = Meter(spending.post)
        self._monitor = BudgetMonitor(self._meter, spending)
        self._levels = state.budgets
        self._clock = clock
        self._timer_ms = NEVER_MS
        declared = FleetDeclared(
            at_ms=0,
            fleet=scenario.fleet,
            tenants=scenario.tenants,
            policies=scenario.policies,
        )
        self._meter.apply(declared)
        self._monitor.apply(declared)

    def apply(self, event: Event) -> None:
        """Meters an event, and sets an earlier timer if needed."""
        self._meter.apply(event)
        self._monitor.apply(event)
        if self._monitor.next_check_ms < self._timer_ms:
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer_ms = max(self._clock.now_ms, self._monitor.next_check_ms)
        self._clock.set_timer(BudgetCheck(self._timer_ms))

    def check(self) -> None:
        """Pushes the level changes of this instant.

        The timer is set again only while other events are due or a budget blocks jobs; otherwise the
        run would never end.
        """
        now_ms = self._clock.now_ms
        if now_ms < self._timer_ms:
            return
        self._timer_ms = NEVER_MS
        for change in self._monitor.check(self._levels.levels, now_ms):
            self._clock.push(change)
        if self._clock.has_events or self._levels.no_borrowing:
            self._set_timer()
