"""Audits a state: recounts every sum and index from its jobs and nodes.

The cost grows with the fleet and the whole backlog, so only tests run it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from bursar.core.check import Fault, check, require_no_faults
from bursar.core.check.quotas import TreeWalk, amounts_of, children_of, sum_up
from bursar.core.check.recount import DeviceCount, NodeCount, RecountedNodes
from bursar.core.nodes.node import FOREIGN
from bursar.core.nodes.pool import PoolState
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import Decision
from bursar.model.fleet.gpu import GpuMode, MigInstance
from bursar.model.jobs.attempt import ShareUse
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import HOUR_MS


def check_thoroughly(
    state: FleetState, decisions: Sequence[Decision], now_ms: int
) -> tuple[Fault, ...]:
    """Faults in the decisions and in the state they were made for."""
    return (*check(state, decisions, now_ms, recounted_jobs=None), *state_faults(state))


def require_thoroughly_valid(state: FleetState, decisions: Sequence[Decision], now_ms: int) -> None:
    """Raises if the decisions of a test's cycle, or its state, have a fault."""
    require_no_faults(check_thoroughly(state, decisions, now_ms), len(decisions))


def state_faults(state: FleetState) -> list[Fault]:
    """Every difference between stored and recounted values."""
    live = {r.id: r for _, r in sorted(state.jobs.items()) if r.state in LIVE}
    return [
        *_node_drift(state, live),
        *_pool_drift(state, live),
        *_quota_drift(state, live),
        *_backlog_drift(state),
        *_list_drift(state, live),
    ]


def _compare(where: str, pairs: Mapping[str, tuple[object, object]]) -> Iterator[Fault]:
    for name, (stored, counted) in pairs.items():
        if stored != counted:
            text = f"{where}: {name} is stored as {_short(stored)}, counted as {_short(counted)}"
            yield Fault("state-drift", where, text)


def _short(value: object) -> str:
    """Text of a value, cut to 200 characters; sets are sorted to be deterministic."""
    if isinstance(value, set | frozenset):
        value = sorted(value)
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


# -- nodes -----------------------------------------------------------------------------------------


def _node_drift(state: FleetState, live: Mapping[str, JobRecord]) -> Iterator[Fault]:
    holders: dict[str, Counter[str]] = {}
    for record in live.values():
        for task in record.placement.all_tasks if record.placement is not None else ():
            holders.setdefault(task.node, Counter())[record.id] += 1
    nodes = RecountedNodes(state)
    claimed_for = {
        task.node: record.id
        for _, record in sorted(state.jobs.items())
        if record.claim is not None
        for task in record.claim.placement.all_tasks
    }
    for name in sorted(state.pools):
        for node in state.pools[name].nodes:
            counted = holders.pop(node.id, Counter())
            counted[FOREIGN] += node.foreign is not None
            yield from _compare(
                f"node {node.id}",
                {
                    "its holders": (dict(sorted(node.holders.items())), _positive(counted)),
                    "claiming job": (node.closed_for, claimed_for.get(node.id)),
                },
            )
            count = nodes.count(node.id)
            if count is not None:
                yield from _amount_drift(count)
    for node_id in sorted(holders):
        yield from _compare(f"node {node_id}", {"holders": ("gone", sorted(holders[node_id]))})


def _positive(counted: Counter[str]) -> dict[str, int]:
    return {holder: number for holder, number in sorted(counted.items()) if number}


def _amount_drift(count: NodeCount) -> Iterator[Fault]:
    node, spec = count.node, count.spec
    blank = emptied = 0
    devices = [DeviceCount(node, gpu) for gpu in range(len(node.devices))]
    for gpu, held in count.devices.items():
        devices[gpu] = held
    for gpu, device in enumerate(devices):
        if device.healthy and not device.uses:
            if device.layout:
                emptied |= 1 << gpu
            else:
                blank |= 1 << gpu
    tags = {tag: len(holders) for tag, holders in sorted(count.tags.items())}
    yield from _compare(
        f"node {node.id}",
        {
            "free milli-CPU": (node.cpu_free_milli, spec.cpu_milli - count.cpu_milli),
            "free memory": (node.memory_free_mib, spec.memory_mib - count.memory_mib),
            "free disk": (node.disk_free_mib, spec.disk_mib - count.disk_mib),
            "idle GPUs": (bin(node.blank), bin(blank)),
            "partitioned GPUs without holders": (bin(node.emptied), bin(emptied)),
            "free GPUs": (node.free_gpus, (blank | emptied).bit_count()),
            "tags": ({tag for tag, n in node.tags.items() if n}, set(tags)),
        },
    )
    for gpu, device in enumerate(devices):
        yield from _device_drift(count, gpu, device)


def _device_drift(count: NodeCount, gpu: int, device: DeviceCount) -> Iterator[Fault]:
    stored = count.node.devices[gpu]
    mode = GpuMode.IDLE
    whole = [holder for holder, use in device.uses if use is None]
    held_slices = [(use, holder) for holder, use in device.uses if isinstance(use, MigInstance)]
    held_shares = [(use, holder) for holder, use in device.uses if isinstance(use, ShareUse)]
    if whole:
        mode = GpuMode.WHOLE
    elif device.layout:
        mode = GpuMode.MIG
    elif held_shares:
        mode = GpuMode.MPS
    shares = sorted(
        (holder, one.percent, one.memory_mib)
        for holder, held in stored.shares.items()
        for one in held
    )
    yield from _compare(
        f"GPU {gpu} of {count.node.id}",
        {
            "mode": (stored.mode, mode),
            "holder": ([stored.whole_holder] if stored.whole_holder else [], whole),
            "slices": (
                sorted((str(one), holder) for one, holder in stored.held.items()),
                sorted((str(one), holder) for one, holder in held_slices),
            ),
            "shares": (
                shares,
                sorted((holder, one.percent, one.memory_mib) for one, holder in held_shares),
            ),
        },
    )


# -- pools -----------------------------------------------------------------------------------------


def _pool_drift(state: FleetState, live: Mapping[str, JobRecord]) -> Iterator[Fault]:
    ends: dict[str, list[tuple[int, str]]] = {}
    for record in live.values():
        for part in record.placement.parts if record.placement is not None else ():
            ends.setdefault(part.pool, []).append((record.end_at_ms, record.id))
    for name, pool in sorted(state.pools.items()):
        yield from _compare(
            f"pool {name}",
            {
                "expected ends": (pool.ends, sorted(ends.get(name, ()))),
                "nodes": (sorted(pool.by_id), sorted(node.id for node in pool.nodes)),
                "nodes by bucket": (pool.buckets, _buckets(pool)),
            },
        )
    placed = {node_id: pool.spec.name for node_id, pool in state.pool_of_node.items()}
    counted = {node.id: name for name, pool in state.pools.items() for node in pool.nodes}
    yield from _compare(
        "the fleet",
        {"pools of nodes": (sorted(placed.items()), sorted(counted.items()))},
    )


def _buckets(pool: PoolState) -> list[list[int]]:
    """Open nodes by free GPUs; pools without GPUs have buckets of CPU, which are not recounted."""
    if not pool.spec.gpus_per_node:
        return pool.buckets
    buckets: list[list[int]] = [[] for _ in range(pool.spec.gpus_per_node + 1)]
    for rank, node in enumerate(pool.nodes):
        if node.up and not node.avoided and node.closed_for is None:
            buckets[node.free_gpus].append(rank)
    return buckets


# -- quota -----------------------------------------------------------------------------------------


def _quota_drift(state: FleetState, live: Mapping[str, JobRecord]) -> Iterator[Fault]:
    limited = {one for tenant in state.tenants.values() for one in tenant.quotas}
    yield from _compare("quota", {"limited resources": (set(state.limited), limited)})
    held: dict[str, list[dict[FlavorResource, int]]] = {}
    for record in live.values():
        if record.placement is not None:
            amounts = amounts_of(state, record.placement)
            held.setdefault(record.spec.queue, []).append(amounts)
            stored = {key: amount for key, amount in sorted(record.request.items()) if amount}
            counted = dict(sorted(amounts.items()))
            yield from _compare(f"job {record.id}", {"charged quota": (stored, counted)})
    used = {queue: sum_up(amounts) for queue, amounts in held.items()}
    children = children_of(state)
    for flavor_resource in sorted(limited):
        walk = TreeWalk(
            state, children, lambda q, fr: (0, used.get(q, {}).get(fr, 0)), flavor_resource
        )
        for root in children.get(None, ()):
            walk.walk(root)
        what = f"use of {flavor_resource[0]} {flavor_resource[1]}"
        for name, counted_use in sorted(walk.used.items()):
            stored_use = state.quota.usage(name, flavor_resource)
            yield from _compare(f"tenant {name}", {what: (stored_use, counted_use)})


# -- jobs ------------------------------------------------------------------------------------------


def _backlog_drift(state: FleetState) -> Iterator[Fault]:
    waiting: dict[int, set[str]] = {}
    for _, record in sorted(state.jobs.items()):
        if record.state is JobState.QUEUED and record.claim is None:
            waiting.setdefault(id(record.backlog), set()).add(record.id)
    for (queue, priority, shape), backlog in sorted(state.backlogs.by_key.items()):
        counted = waiting.pop(id(backlog), set())
        yield from _compare(
            f"backlog {queue}, {priority}, shape {shape}",
            {
                "number of jobs": (backlog.count, len(counted)),
                "jobs": ({record.id for record in backlog.jobs()}, counted),
            },
        )
    for job_ids in waiting.values():
        yield from _compare(f"backlog of {min(job_ids)}", {"jobs": ("unknown", job_ids)})


def _list_drift(state: FleetState, live: Mapping[str, JobRecord]) -> Iterator[Fault]:
    records = state.jobs.values()
    running = {(job.spec.queue, job.id) for job in live.values()}
    limits = sorted(
        (limit_ms, record.id)
        for record in live.values()
        if (limit_ms := _limit_ms(record)) is not None
        and (record.limit_at_ms is not None or record.state is JobState.RUNNING)
    )
    yield from _compare(
        "the fleet",
        {
            "running jobs by queue": (
                {(queue, job) for queue, jobs in state.running_in.items() for job in jobs},
                running,
            ),
            "run time limits": (state.limits, limits),
            "blocked jobs": (
                set(state.blocked),
                {job.id for job in records if job.state is JobState.BLOCKED},
            ),
            "claims": (set(state.claims), {job.id for job in records if job.claim is not None}),
            "jobs to stop": (
                set(state.to_stop),
                {
                    job.id
                    for job in live.values()
                    if job.state is JobState.CANCELLING and not job.stop_requested
                },
            ),
            "jobs waited for": (_waited_for(state.dependents), _unmet(records)),
        },
    )


def _limit_ms(record: JobRecord) -> int | None:
    """Time at which the attempt reaches its run limit or its job its cost limit, the earlier of the two."""
    spec, started_ms = record.spec, record.started_at_ms
    if started_ms is None:
        return None
    limits = [] if spec.max_run_ms is None else [started_ms + spec.max_run_ms]
    price = record.repriced_micro_usd
    if price is None:
        price = record.placement.all_micro_usd_per_hour if record.placement is not None else 0
    if spec.max_cost_micro_usd is not None and price:
        remaining = spec.max_cost_micro_usd - record.charged_micro_usd
        paid_ms = max(0, remaining) * HOUR_MS // price
        last_ms = record.assigned_at_ms + max(paid_ms - spec.grace_ms, paid_ms - paid_ms // 2)
        limits.append(max(started_ms, last_ms))
    return min(limits) if limits else None


def _waited_for(dependents: Mapping[str, Collection[str]]) -> set[tuple[str, str]]:
    return {(one, job_id) for one, job_ids in dependents.items() for job_id in job_ids}


def _unmet(records: Collection[JobRecord]) -> set[tuple[str, str]]:
    return {(one, record.id) for record in records for one in record.unmet}
