"""Shows, plans and applies the fleet."""

from __future__ import annotations

from typing import Any

from bursar.api import wire
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter, Route, json_body
from bursar.api.wire.views import to_wire
from bursar.config.fleet.fleet_file import FleetFile, parse_fleet
from bursar.control.requests.fleet_requests import DeclareFleet
from bursar.core.fleet_change.difference import FleetChange, fleet_changes, refuse_bad_changes
from bursar.core.nodes.device import Device
from bursar.core.nodes.node import FOREIGN, NodeState
from bursar.core.nodes.pool import PoolState
from bursar.core.state.fleet_state import FleetState
from bursar.model.tenants.identity import Permission
from bursar.model.units import counted

MAX_FILES = 200
FILES = json_body(wire.FleetFiles, max_bytes=8 * 2**20)


@Route(
    "GET",
    "/v1/fleet",
    Permission.READ_FLEET,
    "The fleet.",
    query=(Parameter("pool", "Only this pool."),),
)
async def get_fleet(request: RequestContext) -> wire.FleetView:
    """Pools, nodes and GPUs, and the jobs that hold them."""
    context = request.context
    fleet: wire.FleetView = await context.cached(
        "fleet", lambda: context.query_state(fleet_view)
    ).get()
    visible = await request.visible_queues()
    name = request.query.get("pool")
    pools = [one for one in fleet["pools"] if name is None or one["name"] == name]
    if visible is not None:
        pools = [_redact_pool(one, visible) for one in pools]
    return {"pools": pools}


def fleet_view(state: FleetState, _now_ms: int) -> wire.FleetView:
    """The whole fleet, with all holders."""
    return {"pools": [_pool(pool, state) for _, pool in sorted(state.pools.items())]}


def _pool(pool: PoolState, state: FleetState) -> wire.FleetPool:
    model = pool.spec.gpu_model
    return to_wire(
        pool.spec,
        wire.FleetPool,
        gpu_model=model.name if model is not None else None,
        nodes=[_node(node, state) for node in pool.nodes],
        node_count=len(pool.nodes),
        gpu_count=sum(len(node.devices) for node in pool.nodes),
        free_gpus=pool.free_gpus(),
    )


def _node(node: NodeState, state: FleetState) -> wire.FleetNode:
    notice = state.notices.get(node.id)
    return to_wire(
        node,
        wire.FleetNode,
        is_up=node.up,
        notice=to_wire(notice, wire.NoticeView) if notice is not None else None,
        free_cpu_milli=node.cpu_free_milli,
        free_memory_mib=node.memory_free_mib,
        devices=[_device(index, one, state) for index, one in enumerate(node.devices)],
    )


def _device(index: int, device: Device, state: FleetState) -> wire.DeviceView:
    return to_wire(
        device,
        wire.DeviceView,
        index=index,
        is_healthy=device.healthy,
        layout=[str(one) for one in device.layout],
        holders=[_holder(one, state) for one in device.holders],
    )


def _holder(job_id: str, state: FleetState) -> wire.HolderView:
    record = state.jobs.get(job_id)
    if record is None or job_id == FOREIGN:
        return {"job_id": None, "queue": "outside Bursar"}
    return {"job_id": job_id, "queue": record.spec.queue}


def _redact_pool(pool: wire.FleetPool, visible: frozenset[str]) -> wire.FleetPool:
    nodes = [
        {
            **node,
            "devices": [
                {**one, "holders": _redacted_holders(one, visible)} for one in node["devices"]
            ],
        }
        for node in pool["nodes"]
    ]
    return {**pool, "nodes": nodes}  # type: ignore[typeddict-item]


def _redacted_holders(device: wire.DeviceView, visible: frozenset[str]) -> list[wire.HolderView]:
    return [
        one
        if one["job_id"] is None or one["queue"] in visible
        else {"job_id": None, "queue": wire.ANOTHER_TENANT}
        for one in device["holders"]
    ]


# -- changes ----------------------------------------------------------------------------------------


@Route("POST", "/v1/fleet:plan", Permission.WRITE_FLEET, "The changes.", body=FILES)
async def plan_fleet(request: RequestContext) -> wire.FleetPlan:
    """What these fleet files would change."""
    declared, _ = await _read_fleet(request)
    plan, _ = await _difference(request, declared)
    return plan


@Route(
    "POST",
    "/v1/fleet:apply",
    Permission.WRITE_FLEET,
    "What was changed.",
    problems=(409,),
    body=FILES,
    writes=True,
)
async def apply_fleet(request: RequestContext) -> wire.FleetPlan:
    """Apply these fleet files, in one transaction."""
    declared, expected = await _read_fleet(request)
    plan, changes = await _difference(request, declared)
    refuse_bad_changes(changes)
    sequence = await request.context.send(
        DeclareFleet(caller=request.caller, declared=declared, expected_sequence=expected)
    )
    request.context.invalidate_caches()
    request.subject = counted(len(plan["changes"]), "change")
    return {"changes": plan["changes"], "sequence": sequence}


async def _read_fleet(request: RequestContext) -> tuple[FleetFile, int | None]:
    files, expected = _parse_files(await request.json_body())
    return await request.context.run_blocking(parse_fleet, files), expected


def _parse_files(plain: Any) -> tuple[dict[str, str], int | None]:
    files = plain.get("files") if isinstance(plain, dict) else None
    if (
        not isinstance(files, dict)
        or not 1 <= len(files) <= MAX_FILES
        or not all(isinstance(text, str) for text in files.values())
        or not set(plain) <= {"files", "expected_sequence"}
    ):
        raise HttpRefusal(
            "the body has no fleet files.",
            fix=f'Send {{"files": {{name: text}}}} with 1 to {MAX_FILES} files.',
            code="wrong-value",
        )
    expected = plain.get("expected_sequence")
    if expected is not None and (type(expected) is not int or not 0 <= expected < 2**63):
        raise HttpRefusal(
            "expected_sequence is not a whole number from 0.",
            fix="Copy it from the response of /v1/fleet:plan, or leave it out.",
            code="wrong-value",
        )
    return files, expected


async def _difference(
    request: RequestContext, declared: FleetFile
) -> tuple[wire.FleetPlan, tuple[FleetChange, ...]]:
    """The changes against the current declaration, and its sequence number."""
    current = request.context.plane.declaration()
    old = current[0] if current is not None else None

    def query(state: FleetState, _now_ms: int) -> tuple[FleetChange, ...]:
        return fleet_changes(old, declared, state)

    if old is None:
        changes = fleet_changes(None, declared, None)
    else:
        changes = await request.context.query_state(query)
    plan: wire.FleetPlan = {
        "changes": [_change(one) for one in changes],
        "sequence": current[1] if current is not None else 0,
    }
    return plan, changes


def _change(change: FleetChange) -> wire.FleetChangeView:
    refusal = f"refused: {change.effect} {change.fix}"
    return to_wire(
        change,
        wire.FleetChangeView,
        subject=f"{change.subject} {change.field}".rstrip(),
        effect=refusal if change.is_refused else change.effect,
    )
