"""Small runs whose metrics can be calculated by hand: eight GPUs at $1 an hour each."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.model.event import Event, JobSubmitted
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.metrics import RunMetrics
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, pool, queue, tenant

OWNED = "a100-80gb/owned"
ONE_QUEUE = (tenant("acme"), queue("research", "acme"))
TWO_TEAMS = (
    tenant("acme"),
    tenant("science", "acme"),
    queue("vision", "science", {OWNED: 4}),
    queue("product", "acme", {OWNED: 4}),
)


def one_node() -> Fleet:
    return fleet_of(pool("a100", nodes=1, usd_per_node_hour=8.0))


def submitted(*jobs: tuple[int, JobSpec]) -> list[Event]:
    return [JobSubmitted(at_ms=at, job_id=s.name, spec=s, priority=0) for at, s in jobs]


def measured(
    events: Iterable[Event],
    *,
    tenants: tuple[Tenant, ...] = ONE_QUEUE,
    fleet: Fleet | None = None,
    delays: Delays | None = None,
) -> RunMetrics:
    """Runs to the end; engines are instant unless delays are given."""
    scenario = Scenario(
        fleet=fleet or one_node(),
        tenants=tenants,
        events=sorted(events, key=lambda event: event.at_ms),
        delays=delays or Delays(start_ms=0, stop_ms=0),
    )
    return noted(scenario)


def noted(scenario: Scenario) -> RunMetrics:
    simulation = Simulation(scenario)
    measures = RunMetrics(simulation.state)
    for step in simulation.steps():
        measures.note(step)
    return measures
