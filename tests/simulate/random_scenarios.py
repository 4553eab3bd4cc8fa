"""Random scenarios with small fleets, mixed jobs and faults; the same for the same seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from bursar.model.event import (
    Event,
    ForeignUsageSeen,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeRestored,
    PriceChanged,
    TenantChanged,
)
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import CheckpointPolicy, JobSpec, Spread, Topology
from bursar.model.tenants.policy import BackfillPolicy, Policies, VictimOrder
from bursar.model.tenants.tenant import Queueing, Tenant
from bursar.model.units import HOUR_MS, MINUTE_MS
from bursar.simulate.scenario import Scenario
from tests.support import fleet_of, job, mig_job, mps_job, pool, queue, quota, tenant

OWNED = "a100-80gb/owned"
QUEUES = ("vision", "speech", "serving", "platform")
PRIORITIES = ("low", "normal", "normal", "normal", "high")
PASSING = (NodeDrained, ForeignUsageSeen)
JOBS = 60
FAULTS = 6


def random_scenario(seed: int, *, gap_ms: int = 8 * MINUTE_MS) -> Scenario:
    """A scenario for the seed; a job arrives about every ``gap_ms``."""
    chance = Random(seed)
    fleet = fleet_of(
        pool("own", nodes=chance.randrange(3, 7)),
        pool("spot", nodes=2, gpus=4, market=Market.SPOT, usd_per_node_hour=4.0),
        topology={"rack": 2},
    )
    gpus = 8 * sum(node.pool == "own" for node in fleet.nodes)
    tenants = _tenants(chance, gpus)
    policies = _policies(chance)
    arrivals = [
        _arrival(chance, number * gap_ms, f"job-{number:02}", policies) for number in range(JOBS)
    ]
    faults = [_fault(chance, [node.id for node in fleet.nodes], tenants) for _ in range(FAULTS)]
    restored = [_end_of(fault) for fault in faults if isinstance(fault, PASSING)]
    lost = sorted({fault.node for fault in faults if isinstance(fault, NodeLost)})
    returned = [NodeAdded(at_ms=20 * HOUR_MS, node=n) for n in fleet.nodes if n.id in lost]
    events: list[Event] = [*arrivals, *_without_lost_nodes(faults, restored), *returned]
    run_ms = {
        event.job_id: max(1, (event.spec.expected_run_ms or 0) * chance.randrange(40, 130) // 100)
        for event in arrivals
    }
    return Scenario(
        fleet=fleet,
        tenants=tenants,
        policies=policies,
        events=sorted(events, key=lambda event: event.at_ms),
        run_ms=run_ms,
    )


def _tenants(chance: Random, gpus: int) -> tuple[Tenant, ...]:
    own = gpus // 4
    teams = ("research", "research", "product", None)
    queues = tuple(
        queue(
            name,
            parent=parent or "acme",
            quota={OWNED: quota(own, borrow=chance.choice((None, None, 16)))},
            weight=chance.choice((1.0, 2.0)),
            queueing=chance.choice((Queueing.BEST_EFFORT, Queueing.BEST_EFFORT, Queueing.STRICT)),
        )
        for name, parent in zip(QUEUES, teams, strict=True)
    )
    return (tenant("acme"), tenant("research", "acme"), tenant("product", "acme"), *queues)


def _policies(chance: Random) -> Policies:
    policies = Policies()
    return replace(
        policies,
        order=replace(policies.order, aging_step_ms=chance.choice((None, None, HOUR_MS))),
        backfill=BackfillPolicy(reservations=chance.choice((0, 1, 3))),
        preemption=replace(policies.preemption, victim_order=chance.choice(list(VictimOrder))),
    )


def _arrival(chance: Random, at_ms: int, name: str, policies: Policies) -> JobSubmitted:
    spec = _spec(chance, name)
    if name != "job-00" and chance.random() < 0.1:
        spec = replace(spec, depends_on=(f"job-{chance.randrange(int(name[4:])):02}",))
    return JobSubmitted(
        at_ms=at_ms,
        job_id=spec.name,
        spec=spec,
        priority=policies.priority_classes[spec.priority_class],
    )


def _spec(chance: Random, name: str) -> JobSpec:
    where = chance.choice(QUEUES)
    form = chance.randrange(8)
    spec = job(name, gpus=chance.choice((1, 2, 4, 8)), queue=where)
    if form == 0:
        spec = mig_job(name, chance.choice(("1g.10gb", "2g.20gb", "3g.40gb")), queue=where)
    elif form == 1:
        spec = mps_job(name, chance.choice((10, 25, 50)), queue=where, gpu_memory_gib=8)
    elif form == 2:
        spec = job(name, 8, 2, where, topology=Topology(required="rack"))
    elif form == 3:
        spec = job(name, 2, 4, where, min_tasks=1)
    elif form == 4:
        spec = job(name, 1, 3, where, spread=Spread(max_tasks=1), cpu=1, memory_gib=8)
    elif form == 5:
        spec = job(name, 2, queue=where, markets=(Market.SPOT, Market.OWNED))
    minutes = chance.choice((5, 20, 60, 120, 240))
    return replace(
        spec,
        priority_class=chance.choice(PRIORITIES),
        preemptible=chance.random() < 0.8,
        expected_run_ms=minutes * MINUTE_MS,
        max_run_ms=minutes * MINUTE_MS * 5 // 4 if chance.random() < 0.3 else None,
        deadline_ms=chance.randrange(24) * HOUR_MS if chance.random() < 0.1 else None,
        checkpoint=CheckpointPolicy(
            interval_ms=chance.choice((None, 10 * MINUTE_MS, 30 * MINUTE_MS)),
            restart_ms=chance.choice((0, 2 * MINUTE_MS)),
        ),
    )


def _fault(chance: Random, nodes: list[str], tenants: tuple[Tenant, ...]) -> Event:
    at_ms = chance.randrange(10 * HOUR_MS)
    node = chance.choice(nodes)
    form = chance.randrange(6)
    if form == 0:
        return NodeLost(at_ms=at_ms, node=node)
    if form == 1:
        return NodeDrained(at_ms=at_ms, node=node)
    if form == 2:
        return ForeignUsageSeen(at_ms=at_ms, node=node, gpus=(0, 3), cpu_milli=8_000)
    if form == 3:
        return PriceChanged(at_ms=at_ms, pool="spot", node_micro_usd_per_hour=20_000_000)
    if form == 4:
        changed = replace(chance.choice(tenants[-4:]), weight=3.0)
        return TenantChanged(at_ms=at_ms, tenant=changed)
    return JobCancelled(at_ms=at_ms, job_id=f"job-{chance.randrange(JOBS):02}")


def _end_of(fault: NodeDrained | ForeignUsageSeen) -> Event:
    """The event that ends an outage or foreign usage after an hour."""
    at_ms = fault.at_ms + HOUR_MS
    if isinstance(fault, NodeDrained):
        return NodeRestored(at_ms=at_ms, node=fault.node)
    return ForeignUsageSeen(at_ms=at_ms, node=fault.node)


def _without_lost_nodes(faults: list[Event], restored: list[Event]) -> list[Event]:
    """Drops events of nodes that are lost."""
    remaining: list[Event] = []
    lost: set[str] = set()
    for event in sorted([*faults, *restored], key=lambda event: event.at_ms):
        node = getattr(event, "node", "")
        if node not in lost:
            remaining.append(event)
        if isinstance(event, NodeLost):
            lost.add(node)
    return remaining
