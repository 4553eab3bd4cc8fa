"""The meter in a few plain values, and the meter again from them: for going on without the whole log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from bursar.accounting.ledger.entry import Sink, Volume
from bursar.accounting.ledger.holding import NodeHolding
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.node_meter import NodeMeter
from bursar.accounting.ledger.node_parts import SliceRule
from bursar.accounting.ledger.open_job import LiveAttempt, OpenJob
from bursar.model.fleet.fleet import Fleet, Pool
from bursar.model.fleet.price import SpotPoint
from bursar.model.jobs.attempt import Task

Numbers = tuple[int, ...]
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingSnapshot:
    """What a holder has come to on a node. Who it is stands in ``key``; what it is, in ``account``."""

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
    kept: tuple[HoldingSnapshot, ...]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSnapshot:
    """``fleet`` is what was declared last; ``pools`` have the prices of now."""

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


# -- out -------------------------------------------------------------------------------------------


def carry_meter(meter: Meter) -> MeterSnapshot:
    """Everything that ``resume_meter`` needs to go on as this one would."""
    return MeterSnapshot(
        rule=meter.rule,
        sequence=meter.sequence,
        now_ms=meter.now_ms,
        due_ms=meter.due_ms,
        fleet=meter.fleet,
        pools=tuple(meter.pools.values()),
        nodes=tuple(_carry_node(node) for node in meter.nodes.values()),
        jobs=tuple(_carry_terms(job) for job in meter.jobs.values()),
        gone=dict(meter.gone),
        prices=meter.prices.to_snapshot(),
    )


def _carry_node(node: NodeMeter) -> NodeSnapshot:
    return NodeSnapshot(
        id=node.id,
        pool=node.shape.name,
        clock_ms=node.clock_ms,
        carry=node.carry,
        held=tuple(_carry_holding(key, one, node) for key, one in node.held.items()),
        kept=tuple(_carry_holding(key, one, node) for key, one in node.kept.items()),
        idle=_carry_holding("", node.idle, node),
        empty_since_ms=node.empty_since_ms,
    )


def _carry_holding(key: str, holding: NodeHolding, node: NodeMeter) -> HoldingSnapshot:
    holding.turn(node.clock_ms)
    return HoldingSnapshot(
        key=key,
        account=holding.account,
        tasks=holding.tasks,
        from_ms=holding.from_ms,
        sums=tuple(holding.sums),
        banked_micro_usd=holding.banked_micro_usd,
        banked=tuple(holding.banked),
    )


def _carry_terms(job: OpenJob) -> OpenJobSnapshot:
    live = job.live
    return OpenJobSnapshot(
        id=job.id,
        queue=job.queue,
        retries=job.retries,
        failures=job.failures,
        attempt=job.attempt,
        is_cancelled=job.is_cancelled,
        is_expired=job.is_expired,
        live=None if live is None else _carry_attempt(live),
        claimed=tuple(node.id for node in job.claimed),
    )


def _carry_attempt(live: LiveAttempt) -> MeteredAttemptSnapshot:
    return MeteredAttemptSnapshot(
        pool=live.pool,
        flavor=live.flavor,
        nodes=tuple(node.id for node in live.nodes),
        unsaved_from_ms=live.unsaved.from_ms,
        unsaved=tuple((hour, usd, tuple(volume)) for hour, usd, volume in live.unsaved.rows()),
        anchors=None if live.anchors is None else _carry_attempt(live.anchors),
    )


# -- in --------------------------------------------------------------------------------------------


def resume_meter(carried: MeterSnapshot, sink: Sink) -> Meter:
    """The meter that was carried, posting to this sink."""
    meter = Meter(sink, carried.rule)
    meter.sequence, meter.now_ms, meter.due_ms = carried.sequence, carried.now_ms, carried.due_ms
    meter.fleet, meter.gone = carried.fleet, dict(carried.gone)
    meter.prices.restore(carried.prices)
    meter.pools = {pool.name: pool for pool in carried.pools}
    for one in carried.nodes:
        meter.nodes[one.id] = NodeMeter(one.id, meter.pools[one.pool], meter.rule, meter)
        meter.nodes[one.id].begin(one.clock_ms)
    for terms in carried.jobs:
        meter.jobs[terms.id] = _bring_terms(terms, meter)
    for one in carried.nodes:
        _bring_holdings(meter.nodes[one.id], one, meter)
    return meter


def _bring_terms(terms: OpenJobSnapshot, meter: Meter) -> OpenJob:
    job = OpenJob(terms.id, terms.queue, terms.retries)
    job.failures, job.attempt = terms.failures, terms.attempt
    job.is_cancelled, job.is_expired = terms.is_cancelled, terms.is_expired
    job.claimed = tuple(meter.nodes[name] for name in terms.claimed)
    if terms.live is not None:
        job.live = _bring_attempt(terms.live, terms.attempt, meter)
    return job


def _bring_attempt(carried: MeteredAttemptSnapshot, attempt: int, meter: Meter) -> LiveAttempt:
    live = LiveAttempt(attempt, carried.pool, carried.flavor, carried.unsaved_from_ms)
    live.nodes = [meter.nodes[name] for name in carried.nodes]
    for hour_ms, micro_usd, volume in carried.unsaved:
        live.unsaved.add(hour_ms, micro_usd, Volume(*volume))
    if carried.anchors is not None:
        live.anchors = _bring_attempt(carried.anchors, attempt, meter)
    return live


def _bring_holdings(node: NodeMeter, carried: NodeSnapshot, meter: Meter) -> None:
    node.carry = carried.carry
    node.empty_since_ms = carried.empty_since_ms or carried.clock_ms
    for one in carried.held:
        holding = _holding(one)
        job = meter.jobs.get(one.key)
        if job is not None and job.live is not None:
            holding.queue, holding.job_id, holding.attempt = job.queue, job.id, job.attempt
            holding.unsaved = job.live.part_on(node).unsaved
        node.hold(one.key, holding)
    for one in carried.kept:
        holding = _holding(one)
        holding.queue, holding.job_id = meter.jobs[one.key].queue, one.key
        node.keep(one.key, holding)
    _fill(node.idle, carried.idle)
    for one, holding in _pairs(carried.held, node.held.values()):
        _fill(holding, one)
    for one, holding in _pairs(carried.kept, node.kept.values()):
        _fill(holding, one)


def _pairs(
    carried: Iterable[Thing], there: Iterable[NodeHolding]
) -> Iterable[tuple[Thing, NodeHolding]]:
    return zip(carried, there, strict=True)


def _holding(carried: HoldingSnapshot) -> NodeHolding:
    return NodeHolding(carried.account, carried.tasks)


def _fill(holding: NodeHolding, carried: HoldingSnapshot) -> None:
    holding.from_ms, holding.sums = carried.from_ms, carried.sums
    holding.banked_micro_usd = carried.banked_micro_usd
    holding.banked = Volume(*carried.banked)
