"""The simulated shell: from instant to instant, apply what happened, decide, carry out.

Nothing here chooses anything. The function that decides, the one that checks and the table that turns
orders into facts are those of the live system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol, get_args

from bursar.core.alarms import (
    NEVER_MS,
    QUIET,
    AttemptAlarms,
    Wake,
    ages_again,
    still_matters,
    wakes_after_start,
    wakes_after_submission,
)
from bursar.core.cycle import decide
from bursar.core.line import JobRecord
from bursar.core.orders import events_for
from bursar.core.spot_alarm import next_look_ms
from bursar.core.state import FleetState
from bursar.model.decision import Decision, Hold, ReleaseRoom
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptStarted,
    Event,
    JobSubmitted,
)
from bursar.model.policy import OrderTerm
from bursar.simulate.budgets import BUDGETS, SimulatedBudgets
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

    def started(self, record: JobRecord) -> None:
        """An attempt has begun to run."""

    def next_ms(self) -> int:
        """When the next alarm rings; asked only while somebody waits."""

    def pass_by(self, now_ms: int) -> None:
        """Somebody begins to wait now; nobody has heard of what rang before."""

    def hear(self, now_ms: int) -> bool:
        """Pass the alarms up to now; whether one rings. Somebody waits."""


@dataclass(slots=True, init=False)
class Step:
    """One instant: what happened, what was decided, and the facts that the orders became.

    ``cycle_ns`` is the real time that deciding took, None when no cycle ran. It is the only number
    that differs from run to run. (Nobody changes a step, but there are three to a job: to freeze one takes
    longer than to make it, and so does an ``__init__`` that is not written here, once this is compiled.)
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
        self._levels_fall = OrderTerm.LEAST_ATTAINED in scenario.policies.order.terms
        self._look_ms = -1
        has_budgets = any(one.budget is not None for one in scenario.tenants)
        self._budgets = SimulatedBudgets(scenario, self.state, self._clock) if has_budgets else None
        self.state.spot.begin(0)
        self.use_alarms(AttemptAlarms(self.state))

    def use_alarms(self, alarms: Alarms) -> None:
        """Be woken for attempts by these; before the first step."""
        self._alarms = alarms
        self._hearing = self._bringers()

    def steps(self) -> Iterator[Step]:
        """Run until nothing is left to happen."""
        clock, alarms, hearing = self._clock, self._alarms, self._hearing
        while clock.advance(alarms.next_ms() if self._someone_waits else NEVER_MS):
            woken = self._someone_waits and alarms.are_set and alarms.hear(clock.now_ms)
            events: list[Any] = []  # whoever hears of nothing is no event
            while (what := clock.next_due()) is not None:
                kind = type(what)
                hear = hearing.get(kind)
                if hear is None:
                    woken = self._meet(what) or woken
                    continue
                for bring in hear:
                    bring(what)
                events.append(what)
                if kind not in QUIET:
                    woken = True
            if woken:
                yield self._cycle(tuple(events))
                while self._room_released:
                    yield self._cycle(())
            elif events:
                yield Step(clock.now_ms, tuple(events))

    def _cycle(self, events: tuple[Event, ...]) -> Step:
        """Decide and carry out. Orders that open kept room call for another cycle at once."""
        now_ms = self._clock.now_ms
        began_ns = perf_counter_ns()
        decisions = decide(self.state, now_ms)
        cycle_ns = perf_counter_ns() - began_ns
        if self._check is not None:
            self._check(self.state, decisions, now_ms)
        self._room_released = False
        if self.state.book.steered:
            self._look_again(now_ms)
        if not decisions:
            self._someone_waits = False
            return Step(now_ms, events, cycle_ns=cycle_ns)
        # Holds stand behind all orders: where there are any, the last decision is one.
        someone_waits = type(decisions[-1]) is Hold
        if someone_waits and not self._someone_waits:
            self._alarms.pass_by(now_ms)
        self._someone_waits = someone_waits
        committed: list[Event] = []
        for decision in decisions:
            if isinstance(decision, Hold):
                break
            for fact in events_for(decision, now_ms):
                self._apply(fact)
                committed.append(fact)
            if type(decision) is ReleaseRoom:
                self._room_released = True
            self._world.carry_out(decision)
        return Step(now_ms, events, decisions, tuple(committed), cycle_ns)

    def _look_again(self, now_ms: int) -> None:
        """Jobs with deadlines that may run on spot are looked at again, unless that is set already."""
        look_ms = next_look_ms(self.state, now_ms)
        if self._look_ms != look_ms != NEVER_MS:
            self._look_ms = look_ms
            self._clock.set_alarm(Wake(at_ms=look_ms, job_id="", attempt=0))

    def _apply(self, event: Event) -> None:
        """Bring the state up to an event, then the world, then set the alarms that it calls for."""
        for bring in self._hearing[type(event)]:
            bring(event)

    def _bringers(self) -> dict[type, tuple[Callable[..., None], ...]]:
        """Who hears of which kind of event, found once: there are several events to a job."""
        after: dict[type, Callable[..., None]] = {
            AttemptAssigned: self._alarms.assigned,
            AttemptStarted: self._started,
            JobSubmitted: self._submitted,
            AttemptFailed: self._forget_if_over,
        }
        found = {}
        for kind in get_args(Event):
            world = self._world.follower_of(kind)
            budgets = None if self._budgets is None else self._budgets.hear
            hearing = (self.state.applier_of(kind), world, after.get(kind), budgets)
            found[kind] = tuple(one for one in hearing if one is not None)
        return found

    def _started(self, event: AttemptStarted) -> None:
        record = self.state.jobs.get(event.job_id)
        if record is not None:
            self._alarms.started(record)
            if record.limit_at_ms is None and not self._levels_fall:
                return
            for wake in wakes_after_start(self.state, record):
                self._clock.set_alarm(wake)

    def _submitted(self, event: JobSubmitted) -> None:
        spec, ages = event.spec, self.state.policies.order.aging_step_ms
        if ages or spec.deadline_ms is not None or spec.slo is not None:
            for wake in wakes_after_submission(self.state, self.state.jobs[event.job_id]):
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

    def _meet(self, what: Event | Wake | Outage) -> bool:
        """An outage begins, or an alarm that was set rings: then whether it is time for a cycle."""
        if isinstance(what, Outage):
            self._begin(what)
            return False
        assert isinstance(what, Wake)
        if what.job_id == BUDGETS and self._budgets is not None:
            self._budgets.look()
            return False
        # Jobs that age are woken again only while something else goes on: a job that can never
        # start would keep the clock running for ever.
        again = ages_again(self.state, what)
        if again is not None and self._clock.has_events:
            self._clock.set_alarm(again)
        return still_matters(self.state, what, someone_waits=self._someone_waits)
