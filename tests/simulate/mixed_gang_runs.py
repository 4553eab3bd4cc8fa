"""One gang with anchors on a spot pool whose nodes are lost and added, and its costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from bursar.core.check import require_valid
from bursar.model.event import Event, JobSubmitted, NodeAdded, NodeLost
from bursar.model.fleet.fleet import Market, Node
from bursar.model.jobs.job import CheckpointPolicy, JobSpec, JobState
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from bursar.simulate.metrics.run_metrics import RunMetrics
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, job, pool, queue

SPOT_USD, ON_DEMAND_USD = 0.9731, 3.06
"""Per GPU and hour."""
NODES, GPUS = 4, 4
TASKS = NODES * GPUS
SAVES = CheckpointPolicy(interval_ms=20 * MINUTE_MS, restart_ms=5 * MINUTE_MS)
DELAYS = Delays(start_ms=MINUTE_MS, stop_ms=30_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Sixteen tasks, of which that percentage are anchors; elastic if ``least`` is smaller."""

    anchors_percent: int
    hours: float = 24
    least: int = TASKS

    @property
    def spec(self) -> JobSpec:
        return job(
            "gang",
            tasks=TASKS,
            min_tasks=self.least,
            hours=self.hours,
            markets=(Market.SPOT, Market.ON_DEMAND),
            checkpoint=SAVES,
            anchors_percent=self.anchors_percent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRun:
    """The result: dollars by purchase option, interruptions, and hours from submission to end."""

    spot_usd: float
    on_demand_usd: float
    interruptions: int
    hours: float

    @property
    def usd(self) -> float:
        return self.spot_usd + self.on_demand_usd


def spot_nodes(counts: Iterable[tuple[int, int]], seed: str) -> list[Event]:
    """Losses and additions that give these node counts at these times; lost nodes are drawn."""
    chance = Random(seed)
    there: list[str] = []
    away = [f"spot-{number + 1:04d}" for number in range(NODES)]
    found: list[Event] = []
    for at_ms, count in counts:
        while len(there) > count:
            node = there.pop(chance.randrange(len(there)))
            away.append(node)
            found.append(NodeLost(at_ms=at_ms, node=node))
        while len(there) < min(count, NODES):
            node = away.pop(chance.randrange(len(away)))
            there.append(node)
            found.append(NodeAdded(at_ms=at_ms, node=Node(id=node, pool="spot")))
    return found


def run(gang: Gang, counts: Iterable[tuple[int, int]], submitted_ms: int, seed: str) -> GangRun:
    """Runs until the gang has ended; every decision is checked."""
    events = spot_nodes(counts, seed)
    events.append(JobSubmitted(at_ms=submitted_ms, job_id="gang", spec=gang.spec, priority=0))
    scenario = Scenario(
        fleet=fleet_of(
            pool("spot", 0, gpus=GPUS, market=Market.SPOT, usd_per_node_hour=GPUS * SPOT_USD),
            pool(
                "standard",
                NODES,
                gpus=GPUS,
                market=Market.ON_DEMAND,
                usd_per_node_hour=GPUS * ON_DEMAND_USD,
            ),
        ),
        tenants=(queue(),),
        events=sorted(events, key=lambda event: event.at_ms),
        delays=DELAYS,
    )
    simulation = Simulation(scenario, check=require_valid)
    measures = RunMetrics(simulation.state)
    for step in simulation.steps():
        measures.note(step)
        if simulation.state.finished.get("gang") is JobState.SUCCEEDED:
            break
    found = measures.summary()
    return GangRun(
        spot_usd=found.cost.allocated.get("spot", 0) / USD_MICRO,
        on_demand_usd=found.cost.allocated["on-demand"] / USD_MICRO,
        interruptions=found.losses.attempts_lost_with_node,
        hours=(found.ended_ms - submitted_ms) / HOUR_MS,
    )
