"""Stores and restores the fleet state, so that a restart needs no full replay.

A new fleet declaration takes effect the same way: live jobs are restored into a state built from it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import fields, replace

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord, rank_of
from bursar.model import event as ev
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import Node
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.model.state_snapshot import (
    AttemptSnapshot,
    Claim,
    JobSnapshot,
    StateSnapshot,
)

_PROGRESS = (
    *("attempt", "failures", "preemptions", "unprompted", "has_run", "done_ms"),
    *("save_ms", "saved_step", "attained_gpu_ms", "charged_micro_usd"),
)
"""What a record and its snapshot have in common and a restored record takes over."""

# -- store -----------------------------------------------------------------------------------------


def to_snapshot(state: FleetState, declared: ev.FleetDeclared, now_ms: int) -> StateSnapshot:
    """Everything that ``from_snapshot`` needs to build an equal state.

    ``declared`` is the last declaration; changes since are taken from the state.
    """
    fleet = replace(declared.fleet, pools=tuple(pool.spec for pool in state.pools.values()))
    known = {node.id for node in declared.fleet.nodes}
    return StateSnapshot(
        declared=replace(
            declared,
            at_ms=now_ms,
            fleet=fleet,
            tenants=tuple(state.tenants[name] for name in sorted(state.tenants)),
        ),
        added=tuple(_added(state, known)),
        absent=tuple(sorted(known - state.pool_of_node.keys())),
        drained=tuple(
            sorted(name for name in state.pool_of_node if not state.node(name).up),
        ),
        notices=tuple(state.notices[name] for name in sorted(state.notices)),
        spot=state.spot.to_snapshot(),
        layouts=tuple(_layouts(state, now_ms)),
        foreign=tuple(_foreign(state, now_ms)),
        jobs=tuple(_job_snapshot(record) for _, record in sorted(state.jobs.items())),
        usage=state.usage.to_snapshot(),
        failed=tuple(
            sorted(
                (name, final_state)
                for name in state.dependents
                if (final_state := state.finished.get(name))
            )
        ),
        budget_levels=tuple(one for _, one in sorted(state.budgets.levels.items())),
    )


def _added(state: FleetState, known: set[str]) -> Iterator[Node]:
    for name in sorted(state.pool_of_node.keys() - known):
        pool = state.pool_of_node[name]
        yield Node(id=name, pool=pool.spec.name, labels=dict(pool.by_id[name].labels))


def _layouts(state: FleetState, now_ms: int) -> Iterator[ev.GpuPartitioned]:
    for name in sorted(state.pool_of_node):
        for gpu, device in enumerate(state.node(name).devices):
            if device.layout:
                yield ev.GpuPartitioned(at_ms=now_ms, node=name, gpu=gpu, layout=device.layout)


def _foreign(state: FleetState, now_ms: int) -> Iterator[ev.ForeignUsageSeen]:
    for name in sorted(state.pool_of_node):
        task = state.node(name).foreign
        if task is not None:
            yield ev.ForeignUsageSeen(
                at_ms=now_ms,
                node=name,
                gpus=task.gpus,
                cpu_milli=task.cpu_milli,
                memory_mib=task.memory_mib,
                disk_mib=task.disk_mib,
            )


def _job_snapshot(record: JobRecord) -> JobSnapshot:
    return JobSnapshot(
        id=record.id,
        spec=record.spec,
        priority=record.priority,
        submitted_at_ms=record.submitted_at_ms,
        state=record.state,
        **{name: getattr(record, name) for name in _PROGRESS},
        unmet=tuple(sorted(record.unmet)),
        live=_attempt_snapshot(record) if record.state in LIVE else None,
        claim=record.claim,
    )


def _attempt_snapshot(record: JobRecord) -> AttemptSnapshot:
    return AttemptSnapshot(
        **{one.name: getattr(record, one.name) for one in fields(AttemptSnapshot)}
    )


# -- restore -----------------------------------------------------------------------------------------


def from_snapshot(snapshot: StateSnapshot) -> FleetState:
    """Build the state of a snapshot."""
    declared = snapshot.declared
    state = FleetState(declared.fleet, declared.tenants, declared.policies)
    now_ms = declared.at_ms
    for node in snapshot.added:
        state.apply(ev.NodeAdded(at_ms=now_ms, node=node))
    for name in snapshot.absent:
        state.apply(ev.NodeLost(at_ms=now_ms, node=name))
    for name in snapshot.drained:
        state.apply(ev.NodeDrained(at_ms=now_ms, node=name))
    for notice in snapshot.notices:
        state.apply(notice)
    state.spot.restore(snapshot.spot, now_ms)
    for layout in snapshot.layouts:
        state.apply(layout)
    for seen in snapshot.foreign:
        state.apply(seen)
    for name, final_state in snapshot.failed:
        state.finished[name] = final_state
    for job in snapshot.jobs:
        _restore_job(state, job)
    for job in snapshot.jobs:
        if job.claim is not None:
            _restore_claim(state, job.id, job.claim)
    for one in snapshot.usage:
        state.usage.set_value(one.tenant, one.value, one.at_ms)
    for level in snapshot.budget_levels:
        state.apply(level)
    return state


def redeclare(state: FleetState, before: ev.FleetDeclared, after: ev.FleetDeclared) -> FleetState:
    """Move live jobs to a state built from a new declaration.

    Removed nodes and queues must be empty by then (their ``NodeLost`` comes first). Tenants that remain keep
    their usage; a new one starts with none.
    """
    old = to_snapshot(state, before, after.at_ms)
    nodes = {node.id for node in after.fleet.nodes}
    pools = {pool.name for pool in after.fleet.pools}
    tenants = {tenant.name for tenant in after.tenants}
    unchanged = {node.id for node in after.fleet.nodes} - changed_nodes(before.fleet, after.fleet)
    was_declared = {node.id for node in before.fleet.nodes}
    added = tuple(n for n in old.added if n.id not in nodes and n.pool in pools)
    remaining = nodes | {node.id for node in added}
    return from_snapshot(
        replace(
            old,
            declared=after,
            added=added,
            absent=tuple(name for name in old.absent if name in unchanged & was_declared),
            drained=tuple(name for name in old.drained if name in remaining),
            notices=tuple(one for one in old.notices if one.node in remaining),
            layouts=tuple(one for one in old.layouts if one.node in remaining),
            foreign=tuple(one for one in old.foreign if one.node in remaining),
            usage=tuple(one for one in old.usage if one.tenant in tenants),
            budget_levels=tuple(one for one in old.budget_levels if one.tenant in tenants),
        )
    )


def _restore_job(state: FleetState, job: JobSnapshot) -> None:
    state.apply(
        ev.JobSubmitted(
            at_ms=job.submitted_at_ms,
            job_id=job.id,
            spec=replace(job.spec, depends_on=()),
            priority=job.priority,
        )
    )
    record = state.jobs[job.id]
    record.backlog.leave(record)
    record.spec = job.spec
    for name in _PROGRESS:
        setattr(record, name, getattr(job, name))
    if job.state is JobState.BLOCKED:
        state.block(record, frozenset(job.unmet))
        return
    record.rank = rank_of(record, state.policies.order, job.submitted_at_ms)
    record.backlog.join(record)
    if job.live is not None:
        _restore_attempt(state, record, job.state, job.live)


def _restore_attempt(
    state: FleetState, record: JobRecord, was: JobState, live: AttemptSnapshot
) -> None:
    for part in live.placement.parts:
        if part.pool not in state.pools:
            raise BrokenInvariant(f"{record!r} runs in pool {part.pool}, which does not exist")
    attempt, done_ms = record.attempt, record.done_ms
    record.attempt = attempt - 1
    state.apply(
        ev.AttemptAssigned(
            at_ms=live.assigned_at_ms,
            job_id=record.id,
            attempt=attempt,
            placement=live.placement,
        )
    )
    record.repriced_micro_usd = live.repriced_micro_usd
    if live.started_at_ms is not None:
        state.apply(ev.AttemptStarted(at_ms=live.started_at_ms, job_id=record.id, attempt=attempt))
    record.done_ms, record.saved_at_ms = done_ms, live.saved_at_ms
    record.noticed = live.noticed
    _set_end(state, record, live)
    _set_weight(state, record, live)
    stop_event: type[ev.AttemptExpired] | type[ev.AttemptStopping] = ev.AttemptStopping
    if was is JobState.CANCELLING:
        state.apply(ev.JobCancelled(at_ms=live.assigned_at_ms, job_id=record.id))
    elif was is JobState.EXPIRING:
        stop_event = ev.AttemptExpired
    if live.stop_requested:
        state.apply(stop_event(at_ms=live.assigned_at_ms, job_id=record.id, attempt=attempt))
    record.moving = live.moving
    if record.state is not was:
        raise BrokenInvariant(f"{record!r} was stored as {was}")


def _set_end(state: FleetState, record: JobRecord, live: AttemptSnapshot) -> None:
    """Restore the expected end, which was computed at the assignment."""
    for part in live.placement.parts:
        ends = state.pools[part.pool].ends
        del ends[bisect_left(ends, (record.end_at_ms, record.id))]
        insort(ends, (live.end_at_ms, record.id))
    record.end_at_ms = live.end_at_ms


def _set_weight(state: FleetState, record: JobRecord, live: AttemptSnapshot) -> None:
    """Restore the fair-share weight, which was fixed at the start; prices may have changed."""
    queue = record.spec.queue
    state.usage.stop(queue, record.weight, live.assigned_at_ms)
    record.weight = live.weight
    state.usage.start(queue, record.weight, live.assigned_at_ms)


def _restore_claim(state: FleetState, job_id: str, claim: Claim) -> None:
    victims = tuple(sorted(claim.attempts))
    state.apply(
        ev.PlacementClaimed(
            at_ms=0,
            job_id=job_id,
            placement=claim.placement,
            victims=tuple(name for name in victims if name in state.jobs),
        )
    )
    state.jobs[job_id].claim = claim
