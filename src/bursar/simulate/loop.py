"""The simulated shell: from instant to instant, apply what happened, decide, carry out.

Nothing here chooses anything. The function that decides, the one that checks and the table that turns
orders into facts are those of the live system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol, get_args

from bursar.core.alarms import (
    NEVER_MS,
    QUIET,
    AttemptAlarms,
    Wake,
    other_wakes_after,
    still_matters,
    wake_again,
)
from bursar.core.cycle import decide
from bursar.core.orders import events_for
from bursar.core.state import FleetState
from bursar.model.decision import Decision, Hold, ReleaseRoom
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptStarted,
    Event,
    JobSubmitted,
)
from bursar.simulate.clock import Clock
from bursar.simulate.faults import Outage
from bursar.simulate.scenario import Scenario
from bursar.simulate.world import World

Check = Callable[[FleetState, tuple[Decision, ...], int], None]
"""Raises when decisions are not sound."""


class Alarms(Protocol):
    """Whoever knows when the age or the lateness of an attempt may matter to those who wait."""

    are_set: bool

    def assigned(self, event: AttemptAssigned) -> None:
        """An attempt was given its place."""

    def next_ms(self) -> int:
        """When the next alarm rings."""

    def hear(self, now_ms: int, someone_waits: bool) -> bool:
        """Pass the alarms up to now; whether one rings that somebody waits for."""


@dataclass(slots=True)
class Step:
    """One instant: what happened, what was decided, and the facts that the orders became.

    ``cycle_ns`` is the real time that deciding took, None when no cycle ran. It is the only number
    that differs from run to run. (Nobody changes a step, but to freeze it takes longer than to make it.)
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
        self._room_released = False
        self.use_alarms(AttemptAlarms(self.state))

    def use_alarms(self, alarms: Alarms) -> None:
        """Be woken for attempts by these; before the first step."""
        self._alarms = alarms
        self._bring_in = self._bringers()

    def steps(self) -> Iterator[Step]:
        """Run until nothing is left to happen."""
        clock, alarms = self._clock, self._alarms
        while clock.advance(alarms.next_ms() if self._someone_waits else NEVER_MS):
            woken = alarms.are_set and alarms.hear(clock.now_ms, self._someone_waits)
            events: list[Event] = []
            for what in clock.due():
                if isinstance(what, Wake):
                    woken = self._hear(what) or woken
                elif isinstance(what, Outage):
                    self._begin(what)
                else:
                    self._apply(what)
                    events.append(what)
            if woken or not QUIET.issuperset(map(type, events)):
                yield self._cycle(tuple(events))
                while self._room_released:
                    yield self._cycle(())
            elif events:
                yield Step(clock.now_ms, tuple(events), (), (), None)

    def _cycle(self, events: tuple[Event, ...]) -> Step:
        """Decide and carry out. Orders that open kept room call for another cycle at once."""
        now_ms = self._clock.now_ms
        began_ns = perf_counter_ns()
        decisions = decide(self.state, now_ms)
        cycle_ns = perf_counter_ns() - began_ns
        if self._check is not None:
            self._check(self.state, decisions, now_ms)
        self._someone_waits = self._room_released = False
        committed: list[Event] = []
        for decision in decisions:
            if isinstance(decision, Hold):
                # Holds stand behind all orders: nothing after this one is to be carried out.
                self._someone_waits = True
                break
            for fact in events_for(decision, now_ms):
                self._apply(fact)
                committed.append(fact)
            if isinstance(decision, ReleaseRoom):
                self._room_released = True
            self._world.carry_out(decision)
        return Step(now_ms, events, decisions, tuple(committed), cycle_ns)

    def _apply(self, event: Event) -> None:
        """Bring the state up to an event, then the world, then set the alarms that it calls for."""
        for bring in self._bring_in[type(event)]:
            bring(event)

    def _bringers(self) -> dict[type, tuple[Callable[..., None], ...]]:
        """Who hears of which kind of event, found once: there are several events to a job."""
        after: dict[type, Callable[..., None]] = {
            AttemptAssigned: self._alarms.assigned,
            AttemptStarted: self._set_alarms,
            JobSubmitted: self._set_alarms,
            AttemptFailed: self._forget_if_over,
        }
        found = {}
        for kind in get_args(Event):
            world = self._world.follower_of(kind)
            hearing = (self.state.applier_of(kind), world, after.get(kind))
            found[kind] = tuple(one for one in hearing if one is not None)
        return found

    def _set_alarms(self, event: AttemptStarted | JobSubmitted) -> None:
        for wake in other_wakes_after(self.state, event):
            self._clock.set_alarm(wake)

    def _forget_if_over(self, event: AttemptFailed) -> None:
        if event.job_id not in self.state.jobs:
            self._world.forget(event.job_id)

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
            self._clock.set_alarm(again)
        return still_matters(self.state, wake, someone_waits=self._someone_waits)
