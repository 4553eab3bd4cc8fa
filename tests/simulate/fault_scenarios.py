"""Random scenarios full of faults, and the invariants that every step must satisfy.

A scenario has few nodes and jobs, so that every invariant can be recounted at every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import StartJob
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobCancelled,
    JobSubmitted,
    NodeLost,
    PriceChanged,
    TenantChanged,
)
from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.jobs.job import CheckpointPolicy, JobSpec, Spread, Topology
from bursar.model.tenants.policy import (
    BackfillPolicy,
    BorrowWhileReclaiming,
    FairStrategy,
    OrderTerm,
    PlacementPolicy,
    Policies,
    PreemptionPolicy,
    Reclaim,
    SharePolicy,
    VictimOrder,
    WithinQueue,
)
from bursar.model.tenants.tenant import Queueing, Tenant
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.faults import (
    Faults,
    NodeLosses,
    PoolSeries,
    SlowStarts,
    SpotReclaims,
    Stragglers,
)
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation, Step
from tests.properties.test_no_leaks import require_empty, run_until_idle
from tests.support import (
    SchedulerHarness,
    fleet_of,
    gang,
    group,
    job,
    mig_job,
    mps_job,
    pool,
    queue,
    quota,
    tenant,
)
from tests.support.state_audit import require_thoroughly_valid, state_faults

OWNED = "a100-80gb/owned"
QUEUES = ("vision", "speech", "serving")
ANY_MARKET = (Market.SPOT, Market.OWNED)
LAST_FAULT_MS = 12 * HOUR_MS
CROWDED_MS = (0, 0, 1, MINUTE_MS, 15 * MINUTE_MS)
SPARSE_MS = (0, 20 * MINUTE_MS, HOUR_MS)


def fault_scenario(seed: int) -> Scenario:
    """A scenario for the seed."""
    chance = Random(seed)
    gpus = chance.choice((2, 4, 8))
    fleet = fleet_of(
        pool("own", nodes=chance.randrange(2, 5), gpus=gpus),
        pool(
            "spot",
            nodes=chance.randrange(1, 4),
            gpus=chance.choice((1, 4)),
            market=Market.SPOT,
            usd_per_node_hour=4.0,
            interruptions_per_million_hours=chance.choice((0, 300_000, 2_000_000)),
        ),
        topology={"rack": 2},
    )
    tenants = _tenants(chance, fleet)
    policies = _policies(chance)
    events = _events(chance, tenants, policies, gpus)
    return Scenario(
        fleet=fleet,
        tenants=tenants,
        policies=policies,
        events=events,
        run_ms={
            event.job_id: max(
                1, (event.spec.expected_run_ms or 0) * chance.randrange(40, 130) // 100
            )
            for event in events
            if isinstance(event, JobSubmitted)
        },
        delays=Delays(
            start_ms=chance.choice((0, 1, 20 * SECOND_MS)),
            stop_ms=chance.choice((0, 30 * SECOND_MS, 20 * MINUTE_MS)),
        ),
        faults=_faults(chance, seed),
    )


# -- drawing -----------------------------------------------------------------------------------------


def _tenants(chance: Random, fleet: Fleet) -> tuple[Tenant, ...]:
    nodes = sum(node.pool == "own" for node in fleet.nodes)
    own = nodes * fleet.pools[0].gpus_per_node // len(QUEUES)
    queues = tuple(
        queue(
            name,
            parent=chance.choice(("acme", "research")),
            quota={
                OWNED: quota(
                    max(1, own),
                    borrow=chance.choice((None, None, 2, 0)),
                    lend=chance.choice((None, None, 0)),
                )
            },
            weight=chance.choice((1.0, 2.0)),
            queueing=chance.choice((Queueing.BEST_EFFORT, Queueing.STRICT)),
            preemption=PreemptionPolicy(
                within_queue=chance.choice(list(WithinQueue)),
                reclaim=chance.choice((Reclaim.LOWER_PRIORITY, Reclaim.ANY)),
                borrow_while_reclaiming=chance.choice((None, BorrowWhileReclaiming())),
            ),
        )
        for name in QUEUES
    )
    return (tenant("acme"), tenant("research", "acme"), *queues)


def _policies(chance: Random) -> Policies:
    usual = Policies()
    return replace(
        usual,
        order=replace(
            usual.order,
            share=chance.choice(list(SharePolicy)),
            terms=chance.choice((usual.order.terms, *((term,) for term in OrderTerm))),
            aging_step_ms=chance.choice((None, None, HOUR_MS)),
        ),
        placement=chance.choice(list(PlacementPolicy)),
        backfill=BackfillPolicy(reservations=chance.choice((0, 1, 3))),
        preemption=replace(
            usual.preemption,
            victim_order=chance.choice(list(VictimOrder)),
            fair_strategies=chance.choice(((), tuple(FairStrategy))),
            minimum_run_ms=chance.choice((0, 5 * MINUTE_MS)),
        ),
    )


def _events(
    chance: Random, tenants: tuple[Tenant, ...], policies: Policies, gpus: int
) -> list[Event]:
    names = [f"job-{number:02}" for number in range(chance.randrange(12, 25))]
    gaps_ms = chance.choice((CROWDED_MS, CROWDED_MS, SPARSE_MS))
    events: list[Event] = []
    at_ms = 0
    for number, name in enumerate(names):
        at_ms += chance.choice(gaps_ms)
        spec = _spec(chance, name, gpus)
        if number and chance.random() < 0.15:
            spec = replace(spec, depends_on=(chance.choice(names[:number]),))
        priority = policies.priority_classes[spec.priority_class]
        events.append(JobSubmitted(at_ms=at_ms, job_id=name, spec=spec, priority=priority))
    for _ in range(chance.randrange(4)):
        events.append(_turn(chance, names, tenants))
    return sorted(events, key=lambda event: event.at_ms)


def _turn(chance: Random, names: list[str], tenants: tuple[Tenant, ...]) -> Event:
    at_ms = chance.randrange(10 * HOUR_MS)
    form = chance.randrange(3)
    if form == 0:
        return PriceChanged(at_ms=at_ms, pool="spot", node_micro_usd_per_hour=20_000_000)
    if form == 1:
        return TenantChanged(at_ms=at_ms, tenant=replace(chance.choice(tenants[2:]), weight=3.0))
    return JobCancelled(at_ms=at_ms, job_id=chance.choice(names))


def _spec(chance: Random, name: str, gpus: int) -> JobSpec:
    where = chance.choice(QUEUES)
    forms = (
        job(name, chance.choice((1, 2)), queue=where),
        job(name, gpus, queue=where),
        mig_job(name, chance.choice(("1g.10gb", "2g.20gb", "3g.40gb")), queue=where),
        mps_job(name, chance.choice((10, 25, 50)), queue=where, gpu_memory_gib=8),
        job(name, gpus, 2, where, topology=Topology(required="rack")),
        job(name, 1, 3, where, min_tasks=1),
        job(name, 1, 2, where, spread=Spread(max_tasks=1), cpu=1, memory_gib=8),
        job(name, 1, queue=where, markets=ANY_MARKET),
        gang(name, group("head", cpu=2), group("hand", 2, gpus=1), queue=where),
    )
    minutes = chance.choice((2, 20, 60, 120))
    return replace(
        chance.choice(forms),
        priority_class=chance.choice(("low", "normal", "high")),
        preemptible=chance.random() < 0.8,
        expected_run_ms=minutes * MINUTE_MS,
        max_run_ms=minutes * MINUTE_MS * 5 // 4 if chance.random() < 0.2 else None,
        deadline_ms=chance.randrange(1, 24) * HOUR_MS if chance.random() < 0.1 else None,
        retries=chance.choice((0, 1, 5)),
        checkpoint=CheckpointPolicy(
            interval_ms=chance.choice((None, 7 * MINUTE_MS, 30 * MINUTE_MS)),
            restart_ms=chance.choice((0, 2 * MINUTE_MS)),
        ),
    )


def _faults(chance: Random, seed: int) -> Faults:
    hours = range(0, 12, 2)
    series = PoolSeries(
        changes=tuple((hour * HOUR_MS, chance.randrange(4)) for hour in hours),
        end_ms=LAST_FAULT_MS,
        full=chance.choice((None, 3)),
    )
    return Faults(
        seed=seed,
        until_ms=LAST_FAULT_MS,
        node_losses=NodeLosses(
            per_million_hours=chance.choice((50_000, 200_000, 600_000)),
            mean_repair_ms=chance.choice((10 * MINUTE_MS, 3 * HOUR_MS)),
        ),
        spot_reclaims=SpotReclaims(
            notice_ms=chance.choice((0, 2 * MINUTE_MS)),
            series={"spot": series} if chance.random() < 0.5 else {},
            saves_at_notice=chance.random() < 0.5,
        ),
        slow_starts=SlowStarts(median_ms=30 * SECOND_MS, p90_ms=10 * MINUTE_MS),
        stragglers=Stragglers(chance=0.2),
        failure_chance=chance.choice((0.0, 0.1, 0.4)),
    )


# -- invariants ----------------------------------------------------------------------------------


class JobTracker:
    """Tracks submitted jobs and live attempts; no job may be lost or run twice."""

    def __init__(self) -> None:
        self.submitted: set[str] = set()
        self.attempts: Counter[str] = Counter()
        self.live: dict[str, AttemptAssigned] = {}
        self.succeeded: set[str] = set()

    def record(self, event: Event) -> None:
        match event:
            case JobSubmitted(job_id=job_id):
                assert job_id not in self.submitted
                self.submitted.add(job_id)
            case AttemptAssigned(job_id=job_id, attempt=attempt):
                assert job_id in self.submitted and job_id not in self.succeeded
                assert job_id not in self.live, f"{job_id} runs twice"
                self.attempts[job_id] += 1
                assert attempt == self.attempts[job_id]
                self.live[job_id] = event
            case AttemptStarted() | CheckpointSaved():
                assert self.live[event.job_id].attempt == event.attempt
            case AttemptSucceeded() | AttemptFailed() | AttemptPreempted():
                assert self.live.pop(event.job_id).attempt == event.attempt
                if isinstance(event, AttemptSucceeded):
                    self.succeeded.add(event.job_id)
            case NodeLost(node=node):
                for job_id, assigned in list(self.live.items()):
                    if any(task.node == node for task in assigned.placement.tasks):
                        del self.live[job_id]

    def compare(self, state: FleetState) -> None:
        assert {record.id for record in state.live()} == set(self.live)
        assert state.jobs.keys().isdisjoint(state.finished)
        assert state.jobs.keys() | state.finished.keys() == self.submitted


def run_and_check(scenario: Scenario) -> Iterator[Step]:
    """Yields every step of the simulation after checking it; at the end no resource may be in use."""
    simulation = Simulation(scenario, check=require_thoroughly_valid)
    tracker = JobTracker()
    now_ms = 0
    for step in simulation.steps():
        assert step.now_ms >= now_ms
        now_ms = step.now_ms
        for event in (*step.events, *step.committed):
            tracker.record(event)
        tracker.compare(simulation.state)
        assert state_faults(simulation.state) == []
        yield step
    _require_ended(scenario, simulation.state, now_ms)


def _require_ended(scenario: Scenario, state: FleetState, now_ms: int) -> None:
    """All nodes are back, no job can start any more, and all resources and quota are free.

    A job that still waits must wait forever: behind a job that can never run, or for one that failed.
    """
    assert sorted(state.pool_of_node) == sorted(node.id for node in scenario.fleet.nodes)
    assert state.live() == []
    harness = SchedulerHarness(state, now_ms)
    harness.cycle()
    assert not harness.decided(StartJob), "a job could have started without a cycle"
    run_until_idle(harness)
    require_empty(state)
