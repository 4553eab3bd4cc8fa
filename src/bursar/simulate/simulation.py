"""The simulated shell: applies events, runs cycles and carries out orders in virtual time.

It makes no decisions itself. ``decide``, the checker and the table that turns orders into events are those
of the live system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, get_args

from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.timers import QUIET, Timers
from bursar.model.decision import Decision, Hold, ReleaseClaim
from bursar.model.event import AttemptFailed, Event
from bursar.simulate.budgets import SimulatedBudgets
from bursar.simulate.faults import NodeOutage
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulated_engines import SimulatedEngines
from bursar.simulate.virtual_clock import BudgetCheck, VirtualClock

Check = Callable[[FleetState, tuple[Decision, ...], int], None]
"""Raises when decisions are not valid."""


@dataclass(slots=True, init=False)
class Step:
    """One instant: its events, the decisions, and the events of the orders.

    ``cycle_ns`` is the real time that deciding took, None when no cycle ran. It is the only number
    that differs from run to run. Steps are not changed, but a frozen class or a generated ``__init__``
    would be slower once compiled, and there are three steps to a job.
    """

    now_ms: int
    events: tuple[Event, ...]
    decisions: tuple[Decision, ...]
    committed: tuple[Event, ...]
    cycle_ns: int | None

    def __init__(
        self,
        now_ms: int,
        events: tuple[Event, ...],
        decisions: tuple[Decision, ...] = (),
        committed: tuple[Event, ...] = (),
        cycle_ns: int | None = None,
    ) -> None:
        self.now_ms = now_ms
        self.events = events
        self.decisions = decisions
        self.committed = committed
        self.cycle_ns = cycle_ns


class Simulation:
    """One run of a scenario; ``state`` is the fleet after the last step."""

    def __init__(self, scenario: Scenario, *, check: Check | None = None) -> None:
        self.state = FleetState(scenario.fleet, scenario.tenants, scenario.policies)
        faults = scenario.faults
        outages = () if faults is None else faults.outages(scenario.fleet)
        self._clock = VirtualClock(scenario.events, outages)
        self._engines = SimulatedEngines(self._clock, scenario.run_ms, scenario.delays, faults)
        self._check = check
        self._capacity_released = False
        has_budgets = any(one.budget is not None for one in scenario.tenants)
        self._budgets = SimulatedBudgets(scenario, self.state, self._clock) if has_budgets else None
        self.state.spot.begin(0)
        self._timers = Timers(self.state)
        self._appliers = self._appliers_by_type()

    def steps(self) -> Iterator[Step]:
        """Runs until no events remain."""
        clock, timers, appliers = self._clock, self._timers, self._appliers
        while clock.advance(timers.next_ms()):
            needs_cycle = False
            events: list[Any] = []  # an item without appliers is not an event
            while (item := clock.next_due()) is not None:
                event_type = type(item)
                functions = appliers.get(event_type)
                if functions is None:
                    self._begin(item)
                    continue
                for apply in functions:
                    apply(item)
                events.append(item)
                if event_type not in QUIET:
                    needs_cycle = True
            if timers.due(clock.now_ms, repeat=clock.has_events) or needs_cycle:
                yield self._cycle(tuple(events))
                while self._capacity_released:
                    yield self._cycle(())
            elif events:
                yield Step(clock.now_ms, tuple(events))

    def _cycle(self, events: tuple[Event, ...]) -> Step:
        """Decides and carries out orders. Releasing claimed capacity requires another cycle at once."""
        now_ms = self._clock.now_ms
        began_ns = perf_counter_ns()
        decisions = decide(self.state, now_ms)
        cycle_ns = perf_counter_ns() - began_ns
        if self._check is not None:
            self._check(self.state, decisions, now_ms)
        self._capacity_released = False
        # Holds follow all orders: where there are any, the last decision is one.
        has_waiting_jobs = bool(decisions) and type(decisions[-1]) is Hold
        self._timers.after_cycle(now_ms, has_waiting_jobs=has_waiting_jobs)
        committed: list[Event] = []
        for decision in decisions:
            if isinstance(decision, Hold):
                break
            for event in events_for(decision, now_ms):
                for apply in self._appliers[type(event)]:
                    apply(event)
                committed.append(event)
            if type(decision) is ReleaseClaim:
                self._capacity_released = True
            self._engines.carry_out(decision)
        return Step(now_ms, events, decisions, tuple(committed), cycle_ns)

    def _appliers_by_type(self) -> dict[type, tuple[Callable[..., None], ...]]:
        """What applies each event type: the state, then the engines, the timers and the budgets.

        Looked up once, because a run has several events for each job.
        """
        timers = self._timers.appliers()
        budgets = None if self._budgets is None else self._budgets.apply
        by_type = {}
        for event_type in get_args(Event):
            functions = (
                self.state.appliers[event_type],
                self._engines.appliers.get(event_type),
                timers.get(event_type),
                self._forget_if_over if event_type is AttemptFailed else None,
                budgets,
            )
            by_type[event_type] = tuple(one for one in functions if one is not None)
        return by_type

    def _forget_if_over(self, event: AttemptFailed) -> None:
        if event.job_id not in self.state.jobs:
            self._engines.forget(event.job_id)

    def _begin(self, item: Event | NodeOutage | BudgetCheck) -> None:
        """Checks budgets, or puts the events of an outage on the clock."""
        if isinstance(item, BudgetCheck):
            assert self._budgets is not None
            self._budgets.check()
            return
        assert isinstance(item, NodeOutage)
        if item.node.id in self.state.pool_of_node:
            for event in item.events():
                self._clock.push(event)
            if item.saves:
                self._engines.save_on(item.node.id)
