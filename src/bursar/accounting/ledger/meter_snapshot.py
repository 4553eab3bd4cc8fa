"""The meter as plain values and back, to resume without replaying the whole log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from bursar.accounting.ledger.entry import Sink, Volume
from bursar.accounting.ledger.holding import NodeHolding, UnsavedWork
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.node_fraction import SliceRule
from bursar.accounting.ledger.node_meter import NodeMeter
from bursar.accounting.ledger.open_job import LiveAttempt, OpenJob
from bursar.model.fleet.fleet import Fleet, Pool
from bursar.model.fleet.price import SpotPoint
from bursar.model.jobs.attempt import Task

Numbers = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingSnapshot:
    """A holder of a node; ``key`` is its job id, or says that it is foreign usage."""

    key: str
    account: str
    tasks: tuple[Task, ...]
    from_ms: int
    sums: Numbers
    banked_micro_usd: int
    banked: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    id: str
    pool: str
    clock_ms: int
    carry: int
    held: tuple[HoldingSnapshot, ...]
    reserved: tuple[HoldingSnapshot, ...]
    idle: HoldingSnapshot
    empty_since_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredAttemptSnapshot:
    """The live attempt of a job; ``unsaved`` has one row for each hour that could still be lost."""

    pool: str
    flavor: str
    nodes: tuple[str, ...]
    unsaved_from_ms: int
    unsaved: tuple[tuple[int, int, Numbers], ...]
    anchors: MeteredAttemptSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJobSnapshot:
    id: str
    queue: str
    retries: int
    failures: int
    attempt: int
    is_cancelled: bool
    is_expired: bool
    live: MeteredAttemptSnapshot | None
    claimed: tuple[str, ...]


_SAME_IN_A_JOB = tuple(
    one.name for one in fields(OpenJobSnapshot) if one.name not in ("live", "claimed")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSnapshot:
    """``fleet`` is the last declaration; ``pools`` have the current prices."""

    rule: SliceRule
    sequence: int
    now_ms: int
    due_ms: int
    fleet: Fleet | None
    pools: tuple[Pool, ...]
    nodes: tuple[NodeSnapshot, ...]
    jobs: tuple[OpenJobSnapshot, ...]
    gone: Mapping[str, int]
    prices: tuple[tuple[str, tuple[SpotPoint, ...]], ...] = ()


# -- to a snapshot ---------------------------------------------------------------------------------


def meter_to_snapshot(meter: Meter) -> MeterSnapshot:
    """Everything that ``meter_from_snapshot`` needs."""
    return MeterSnapshot(
        rule=meter.rule,
        sequence=meter.sequence,
        now_ms=meter.now_ms,
        due_ms=meter.due_ms,
        fleet=meter.fleet,
        pools=tuple(meter.pools.values()),
        nodes=tuple(_node_to_snapshot(node) for node in meter.nodes.values()),
        jobs=tuple(_job_to_snapshot(job) for job in meter.jobs.values()),
        gone=dict(meter.gone),
        prices=meter.prices.to_snapshot(),
    )


def _node_to_snapshot(node: NodeMeter) -> NodeSnapshot:
    return NodeSnapshot(
        id=node.id,
        pool=node.shape.name,
        clock_ms=node.clock_ms,
        carry=node.carry,
        held=tuple(_holding_to_snapshot(key, one, node) for key, one in node.held.items()),
        reserved=tuple(_holding_to_snapshot(key, one, node) for key, one in node.reserved.items()),
        idle=_holding_to_snapshot("", node.idle, node),
        empty_since_ms=node.empty_since_ms,
    )


def _holding_to_snapshot(key: str, holding: NodeHolding, node: NodeMeter) -> HoldingSnapshot:
    holding.accumulate(node.clock_ms)
    return HoldingSnapshot(
        key=key,
        account=holding.account,
        tasks=holding.tasks,
        from_ms=holding.from_ms,
        sums=tuple(holding.sums),
        banked_micro_usd=holding.banked_micro_usd,
        banked=tuple(holding.banked),
    )


def _job_to_snapshot(job: OpenJob) -> OpenJobSnapshot:
    return OpenJobSnapshot(
        **{name: getattr(job, name) for name in _SAME_IN_A_JOB},
        live=_attempt_to_snapshot(job.live),
        claimed=tuple(node.id for node in job.claimed),
    )


def _attempt_to_snapshot(live: LiveAttempt | None) -> MeteredAttemptSnapshot | None:
    if live is None:
        return None
    return MeteredAttemptSnapshot(
        pool=live.pool,
        flavor=live.flavor,
        nodes=tuple(node.id for node in live.nodes),
        unsaved_from_ms=live.unsaved.from_ms,
        unsaved=tuple((hour, usd, tuple(volume)) for hour, usd, volume in live.unsaved.rows()),
        anchors=_attempt_to_snapshot(live.anchors),
    )


# -- from a snapshot -------------------------------------------------------------------------------


def meter_from_snapshot(snapshot: MeterSnapshot, sink: Sink) -> Meter:
    """Restores a meter that posts to this sink."""
    meter = Meter(sink, snapshot.rule)
    meter.sequence, meter.now_ms, meter.due_ms = snapshot.sequence, snapshot.now_ms, snapshot.due_ms
    meter.fleet, meter.gone = snapshot.fleet, dict(snapshot.gone)
    meter.prices.restore(snapshot.prices)
    meter.pools = {pool.name: pool for pool in snapshot.pools}
    for one in snapshot.nodes:
        meter.nodes[one.id] = NodeMeter(one.id, meter.pools[one.pool], meter.rule, meter)
        meter.nodes[one.id].begin(one.clock_ms)
    for job_snapshot in snapshot.jobs:
        meter.jobs[job_snapshot.id] = _restore_job(job_snapshot, meter)
    for one in snapshot.nodes:
        _restore_holdings(meter.nodes[one.id], one, meter)
    return meter


def _restore_job(snapshot: OpenJobSnapshot, meter: Meter) -> OpenJob:
    job = OpenJob(**{name: getattr(snapshot, name) for name in _SAME_IN_A_JOB})
    job.claimed = tuple(meter.nodes[name] for name in snapshot.claimed)
    job.live = _restore_attempt(snapshot.live, snapshot.attempt, meter)
    return job


def _restore_attempt(
    snapshot: MeteredAttemptSnapshot | None, attempt: int, meter: Meter
) -> LiveAttempt | None:
    if snapshot is None:
        return None
    unsaved = UnsavedWork(snapshot.unsaved_from_ms)
    for hour_ms, micro_usd, volume in snapshot.unsaved:
        unsaved.add(hour_ms, micro_usd, Volume(*volume))
    anchors = _restore_attempt(snapshot.anchors, attempt, meter)
    nodes = [meter.nodes[name] for name in snapshot.nodes]
    return LiveAttempt(attempt, snapshot.pool, snapshot.flavor, unsaved, nodes, anchors)


def _restore_holdings(node: NodeMeter, snapshot: NodeSnapshot, meter: Meter) -> None:
    node.carry = snapshot.carry
    node.empty_since_ms = snapshot.empty_since_ms or snapshot.clock_ms
    for one in snapshot.held:
        holding = NodeHolding(one.account, one.tasks)
        job = meter.jobs.get(one.key)
        if job is not None and job.live is not None:
            holding.queue, holding.job_id, holding.attempt = job.queue, job.id, job.attempt
            holding.unsaved = job.live.live_on(node).unsaved
        node.hold(one.key, holding)
    for one in snapshot.reserved:
        queue = meter.jobs[one.key].queue
        node.reserve(one.key, NodeHolding(one.account, one.tasks, queue, one.key))
    _restore_sums(node.idle, snapshot.idle)
    for holding, one in zip(node.held.values(), snapshot.held, strict=True):
        _restore_sums(holding, one)
    for holding, one in zip(node.reserved.values(), snapshot.reserved, strict=True):
        _restore_sums(holding, one)


def _restore_sums(holding: NodeHolding, snapshot: HoldingSnapshot) -> None:
    holding.from_ms, holding.sums = snapshot.from_ms, snapshot.sums
    holding.banked_micro_usd = snapshot.banked_micro_usd
    holding.banked = Volume(*snapshot.banked)
