"""Simulates one job with a deadline on spot nodes that are lost and added, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from bursar.core.check import require_valid
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptStopping,
    AttemptSucceeded,
    Event,
    JobSubmitted,
    NodeAdded,
    NodeLost,
)
from bursar.model.fleet.fleet import Fleet, Market, Node
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.units import HOUR_MS
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, job, pool, queue

ON_DEMAND_USD, SPOT_USD = 3.06, 0.9731
Availability = Sequence[tuple[int, bool]]
"""Times at which capacity appears (true) or disappears (false)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A job, its deadline relative to its submission, and its checkpoints."""

    submitted_ms: int
    hours: float
    within_ms: int
    checkpoint: CheckpointPolicy

    @property
    def spec(self) -> JobSpec:
        spec = job(
            "timed",
            hours=self.hours,
            markets=(Market.SPOT, Market.ON_DEMAND),
            checkpoint=self.checkpoint,
        )
        return replace(spec, deadline_ms=self.submitted_ms + self.within_ms)


@dataclass(slots=True)
class Outcome:
    """The cost and the result of a run."""

    usd: float = 0.0
    on_demand_hours: float = 0.0
    moves: int = 0
    losses: int = 0
    done_ms: int | None = None


def fleet_with(zones: Sequence[str]) -> Fleet:
    """One on-demand node, and one spot node in each zone, with one GPU each."""
    spot = [pool(zone, 1, gpus=1, market=Market.SPOT, usd_per_node_hour=SPOT_USD) for zone in zones]
    standard = pool("standard", 1, gpus=1, market=Market.ON_DEMAND, usd_per_node_hour=ON_DEMAND_USD)
    return fleet_of(standard, *spot)


def events_of(zones: dict[str, Availability], timed: Timed) -> list[Event]:
    """Losses and additions of spot nodes, and the submission of the job."""
    found: list[Event] = [
        JobSubmitted(at_ms=timed.submitted_ms, job_id="timed", spec=timed.spec, priority=0)
    ]
    for zone, changes in zones.items():
        node, is_up = Node(id=f"{zone}-0001", pool=zone), True
        for at_ms, available in changes:
            if available is not is_up:
                found.append(
                    NodeAdded(at_ms=at_ms, node=node)
                    if available
                    else NodeLost(at_ms=at_ms, node=node.id)
                )
                is_up = available
    return sorted(found, key=lambda event: event.at_ms)


def run(
    zones: dict[str, Availability],
    timed: Timed,
    policies: Policies,
    delays: Delays,
    *,
    check: bool = True,
) -> Outcome:
    """Runs until the job has succeeded."""
    scenario = Scenario(
        fleet=fleet_with(sorted(zones)),
        tenants=(queue(),),
        policies=policies,
        events=events_of(zones, timed),
        delays=delays,
    )
    simulation = Simulation(scenario, check=require_valid if check else None)
    outcome = Outcome()
    held: AttemptAssigned | None = None
    for step in simulation.steps():
        for event in (*step.events, *step.committed):
            if isinstance(event, AttemptAssigned):
                held = event
            elif held is not None and _ends(held, event):
                _count(outcome, held, event.at_ms)
                outcome.losses += isinstance(event, NodeLost)
                held = None
            outcome.moves += isinstance(event, AttemptStopping) and event.why == "move"
            if isinstance(event, AttemptSucceeded):
                outcome.done_ms = event.at_ms
                return outcome
    return outcome


def _ends(held: AttemptAssigned, event: Event) -> bool:
    if isinstance(event, NodeLost):
        return event.node == held.placement.tasks[0].node
    return isinstance(event, AttemptSucceeded | AttemptPreempted | AttemptFailed)


def _count(outcome: Outcome, held: AttemptAssigned, at_ms: int) -> None:
    hours = (at_ms - held.at_ms) / HOUR_MS
    outcome.usd += hours * held.placement.micro_usd_per_hour / 1e6
    outcome.on_demand_hours += hours * (held.placement.pool == "standard")


def random_availability(chance: Random, until_ms: int) -> Availability:
    """Random availability, with random mean lengths of both states."""

    def draw() -> Iterator[tuple[int, bool]]:
        mean_ms = {
            available: chance.choice([0.2, 0.7, 2, 6]) * HOUR_MS for available in (True, False)
        }
        at_ms, available = 0, chance.random() < 0.5
        while at_ms < until_ms:
            yield at_ms, available
            at_ms += max(1_000, round(chance.expovariate(1 / mean_ms[available])))
            available = not available

    return list(draw())
