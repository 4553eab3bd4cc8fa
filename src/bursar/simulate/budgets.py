"""Budgets in a simulated run: the ledger's own fold beside the state, made only where somebody has one.

Jobs of a trace were let in by somebody else, so nothing is held for them at the door: what a simulated
budget does is what its steps say.
"""

from __future__ import annotations

from bursar.accounting.budget_keeper import BudgetKeeper
from bursar.accounting.meter import Meter
from bursar.accounting.spending import Spending
from bursar.core.alarms import NEVER_MS, Wake
from bursar.core.state import FleetState
from bursar.model.event import Event, FleetDeclared
from bursar.simulate.clock import Clock
from bursar.simulate.scenario import Scenario

BUDGETS = "(budgets)"
"""The alarms that are for nobody's job but for looking at budgets."""


class SimulatedBudgets:
    """Hears of every event after the state has, and lets levels change on the clock."""

    def __init__(self, scenario: Scenario, state: FleetState, clock: Clock) -> None:
        spending = Spending()
        self._meter = Meter(spending.post)
        self._keeper = BudgetKeeper(self._meter, spending)
        self._levels = state.budgets
        self._clock = clock
        self._armed_ms = NEVER_MS
        declared = FleetDeclared(
            at_ms=0,
            fleet=scenario.fleet,
            tenants=scenario.tenants,
            policies=scenario.policies,
        )
        self._meter.apply(declared)
        self._keeper.apply(declared)

    def hear(self, event: Event) -> None:
        """Bring the books up to an event, and set the alarm anew if it must ring sooner."""
        self._meter.apply(event)
        self._keeper.apply(event)
        if self._keeper.next_look_ms < self._armed_ms:
            self._arm()

    def _arm(self) -> None:
        self._armed_ms = max(self._clock.now_ms, self._keeper.next_look_ms)
        self._clock.set_alarm(Wake(at_ms=self._armed_ms, job_id=BUDGETS, attempt=0))

    def look(self) -> None:
        """The alarm rings. What has changed happens at this same instant.

        It is set again only while something else goes on or a budget keeps something from going on:
        periods would follow each other for ever.
        """
        now_ms = self._clock.now_ms
        if now_ms < self._armed_ms:
            return
        self._armed_ms = NEVER_MS
        for change in self._keeper.look(self._levels.levels, now_ms):
            self._clock.push(change)
        if self._clock.has_events or self._levels.no_borrowing:
            self._arm()
