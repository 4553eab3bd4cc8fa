"""The simulated shell: from instant to instant, apply what happened, decide, carry out.

Nothing here chooses anything. The function that decides, the one that checks and the table that turns
orders into facts are those of the live system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns

from bursar.core.alarms import Wake, calls_for_a_cycle, still_matters, wake_again, wakes_after
from bursar.core.cycle import decide
from bursar.core.orders import events_for
from bursar.core.state import FleetState
from bursar.model.decision import Decision, Hold
from bursar.model.event import AttemptFailed, Event, RoomReleased
from bursar.simulate.clock import Clock
from bursar.simulate.faults import Outage
from bursar.simulate.scenario import Scenario
from bursar.simulate.world import World

Check = Callable[[FleetState, tuple[Decision, ...], int], None]
"""Raises when decisions are not sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One instant: what happened, what was decided, and the facts that the orders became.

    ``cycle_ns`` is the real time that deciding took, None when no cycle ran. It is the only number
    that differs from run to run.
    """

    now_ms: int
    events: tuple[Event, ...]
    decisions: tuple[Decision, ...]
    committed: tuple[Event, ...]
    cycle_ns: int | None


class Simulation:
    """One run of a scenario. ``state`` is the fleet as it is after the last step taken."""

    def __init__(self, scenario: Scenario, *, check: Check | None = None) -> None:
        self.state = FleetState(scenario.fleet, scenario.tenants, scenario.policies)
        faults = scenario.faults
        outages = () if faults is None else faults.outages(scenario.fleet)
        self._clock = Clock(scenario.events, outages)
        self._world = World(self._clock, scenario.run_ms, scenario.delays, faults)
        self._check = check
        self._someone_waits = False

    def steps(self) -> Iterator[Step]:
        """Run until nothing is left to happen."""
        while self._clock.advance():
            events: list[Event] = []
            woken = False
            for what in self._clock.due():
                if isinstance(what, Wake):
                    woken = self._hear(what) or woken
                elif isinstance(what, Outage):
                    self._begin(what)
                else:
                    self._apply(what)
                    events.append(what)
            if calls_for_a_cycle(events) or woken:
                yield from self._cycles(events)
            elif events:
                yield self._step(events, (), (), None)

    def _cycles(self, events: list[Event]) -> Iterator[Step]:
        """A cycle, and another for as long as its own orders open room that it had kept."""
        step = self._cycle(events)
        yield step
        while any(isinstance(event, RoomReleased) for event in step.committed):
            step = self._cycle([])
            yield step

    def _cycle(self, events: list[Event]) -> Step:
        now_ms = self._clock.now_ms
        began_ns = perf_counter_ns()
        decisions = decide(self.state, now_ms)
        cycle_ns = perf_counter_ns() - began_ns
        if self._check is not None:
            self._check(self.state, decisions, now_ms)
        self._someone_waits = any(isinstance(decision, Hold) for decision in decisions)
        committed: list[Event] = []
        for decision in decisions:
            if not isinstance(decision, Hold):
                for fact in events_for(decision, now_ms):
                    self._apply(fact)
                    committed.append(fact)
                self._world.carry_out(decision)
        return self._step(events, decisions, committed, cycle_ns)

    def _step(
        self,
        events: Iterable[Event],
        decisions: tuple[Decision, ...],
        committed: Iterable[Event],
        cycle_ns: int | None,
    ) -> Step:
        return Step(
            now_ms=self._clock.now_ms,
            events=tuple(events),
            decisions=decisions,
            committed=tuple(committed),
            cycle_ns=cycle_ns,
        )

    def _apply(self, event: Event) -> None:
        self.state.apply(event)
        self._world.follow(event)
        if isinstance(event, AttemptFailed) and event.job_id in self.state.finished:
            self._world.forget(event.job_id)
        for wake in wakes_after(self.state, event):
            self._clock.push(wake)

    def _begin(self, outage: Outage) -> None:
        """What the outage looks like is put on the clock, unless its node is gone already."""
        if outage.node.id not in self.state.pool_of_node:
            return
        for event in outage.events():
            self._clock.push(event)
        if outage.saves:
            self._world.save_on(outage.node.id)

    def _hear(self, wake: Wake) -> bool:
        # Jobs that age are woken again only while something else goes on: a job that can never
        # start would keep the clock running for ever.
        again = wake_again(self.state, wake)
        if again is not None and self._clock.has_events:
            self._clock.push(again)
        return still_matters(self.state, wake, someone_waits=self._someone_waits)
