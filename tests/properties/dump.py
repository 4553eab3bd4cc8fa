"""The whole state as plain values that can be compared.

Left out are caches, logs of what to check again, and removed entries that a lazy heap still contains.
"""

from __future__ import annotations

from typing import Any

from bursar.core.nodes.device import Device
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import PoolState
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog, JobRecord


def attributes_of(kind: type, *but: str) -> tuple[str, ...]:
    """The attributes of a value with slots; a compiled class lists them under another name."""
    slots: tuple[str, ...] = getattr(kind, "__slots__", ()) or kind.__mypyc_attrs__  # type: ignore[attr-defined]
    return tuple(sorted(set(slots).difference(but)))


OF_A_JOB = attributes_of(JobRecord, "backlog", "claim", "ticket")
OF_A_DEVICE = attributes_of(Device, "model")
OF_A_NODE = attributes_of(NodeState, "devices", "holders", "tags")


def dump(state: FleetState) -> dict[str, Any]:
    """The whole state, by part."""
    return {
        "pools": {name: dump_pool(pool) for name, pool in state.pools.items()},
        "pool of node": {node: pool.spec.name for node, pool in state.pool_of_node.items()},
        "jobs": {job_id: dump_job(record) for job_id, record in state.jobs.items()},
        "lines": sorted(
            (dump_backlog(backlog) for backlog in state.backlogs.by_key.values()), key=repr
        ),
        "finished": dict(state.finished),
        "blocked": sorted(state.blocked),
        "dependents": {job: sorted(waiting) for job, waiting in state.dependents.items()},
        "claims": sorted(state.claims),
        "running": {queue: sorted(jobs) for queue, jobs in state.running_in.items() if jobs},
        "priorities": {
            queue: dict(counts) for queue, counts in state.running_priorities.items() if counts
        },
        "limits": list(state.limits),
        "to stop": sorted(state.to_stop),
        "tenants": dict(state.tenants),
        "quota": dump_quota(state),
        "usage": dump_usage(state),
        "mix": dump_mix(state),
    }


def dump_pool(pool: PoolState) -> dict[str, Any]:
    return {
        "spec": pool.spec,
        "ends": list(pool.ends),
        "buckets": [list(bucket) for bucket in pool.buckets],
        "bucket_of": list(pool.bucket_of),
        "nodes": [dump_node(node) for node in pool.nodes],
    }


def dump_node(node: NodeState) -> dict[str, Any]:
    return {
        **{name: getattr(node, name) for name in OF_A_NODE},
        "holders": dict(node.holders),
        "tags": {tag: number for tag, number in node.tags.items() if number},
        "devices": [dump_device(device) for device in node.devices],
    }


def dump_device(device: Device) -> dict[str, Any]:
    found = {name: getattr(device, name) for name in OF_A_DEVICE}
    found["held"] = dict(device.held)
    found["shares"] = {holder: sorted(map(repr, held)) for holder, held in device.shares.items()}
    found["_free"] = {profile: list(free) for profile, free in device._free.items()}
    return found


def dump_job(record: JobRecord) -> dict[str, Any]:
    claim = record.claim
    return {
        **{name: getattr(record, name) for name in OF_A_JOB},
        "request": dict(record.request),
        "kind": record.backlog.kind,
        "claim": None if claim is None else (claim.placement, claim.victims),
    }


def dump_backlog(backlog: Backlog) -> dict[str, Any]:
    plan = backlog.plan
    return {
        "kind": backlog.kind,
        "count": backlog.count,
        "jobs": [record.id for record in backlog.jobs()],
        "problem": plan.problem,
        "fits": [
            (fit.pool.spec.name, fit.expected_micro_usd, fit.request(plan.counts))
            for fit in plan.fits
        ],
    }


def dump_quota(state: FleetState) -> dict[str, Any]:
    limited = sorted(state.limited)
    return {
        name: [
            (key, state.quota.usage(name, key), state.quota.borrowing_queues(name, [key]))
            for key in limited
        ]
        for name in state.quota.names()
    }


def dump_usage(state: FleetState) -> dict[str, Any]:
    return {
        name: (account.value, account.rate_per_ms, account.at_ms)
        for name, account in state.usage._accounts.items()
    }


def dump_mix(state: FleetState) -> dict[str, Any]:
    mix = state.mix
    return {"counts": dict(mix._counts), "total": mix._total, "shapes": mix.shapes}


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """The first difference of two dumps, as text."""
    if one == other:
        return ""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        parts = ((key, one[key], other[key]) for key in one)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        parts = ((at, *pair) for at, pair in enumerate(zip(one, other, strict=True)))
    else:
        return f"{path}: {one!r} is not {other!r}"
    return next(found for key, a, b in parts if (found := first_difference(a, b, f"{path}/{key}")))
