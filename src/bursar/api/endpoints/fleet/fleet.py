"""What there is, who holds it, and how to change it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, answer
from bursar.config.fleet.fleet_file import FleetFile, parse_fleet
from bursar.control.requests.fleet_requests import DeclareFleet
from bursar.core.fleet_change.difference import FleetChange, fleet_changes, refuse_bad_changes
from bursar.core.nodes.node import FOREIGN, NodeState
from bursar.core.nodes.pool import PoolState
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import SpotNotice

MOST_FILES = 200


async def get_fleet(call: RequestContext) -> Response:
    """Pools, nodes and GPUs. Whose job is on a GPU is said only of jobs the caller sees."""
    desk = call.desk
    fleet: wire.FleetView = await desk.remembered("fleet", lambda: desk.ask(draw_fleet)).get()
    seen = await call.seen()
    wanted = call.query.get("pool")
    pools = [one for one in fleet["pools"] if wanted is None or one["name"] == wanted]
    drawn: wire.FleetView = {
        "pools": pools if seen is None else [_hide(one, seen) for one in pools]
    }
    return answer(drawn)


def draw_fleet(state: FleetState, _now_ms: int) -> wire.FleetView:
    """The whole fleet with every holder's name."""
    return {"pools": [_pool(pool, state) for _, pool in sorted(state.pools.items())]}


def _pool(pool: PoolState, state: FleetState) -> wire.FleetPool:
    spec = pool.spec
    return {
        "name": spec.name,
        "cluster": spec.cluster,
        "flavor": spec.flavor,
        "market": spec.market.value,
        "gpu_model": spec.gpu_model.name if spec.gpu_model is not None else None,
        "gpus_per_node": spec.gpus_per_node,
        "node_micro_usd_per_hour": spec.node_micro_usd_per_hour,
        "nodes": [_node(node, state) for node in pool.nodes],
        "node_count": len(pool.nodes),
        "gpu_count": sum(len(node.devices) for node in pool.nodes),
        "free_gpus": pool.free_gpus(),
    }


def _node(node: NodeState, state: FleetState) -> wire.FleetNode:
    return {
        "id": node.id,
        "is_up": node.up,
        "is_open": node.is_open,
        "notice": _notice(state.notices.get(node.id)),
        "free_gpus": node.free_gpus,
        "free_cpu_milli": node.cpu_free_milli,
        "free_memory_mib": node.memory_free_mib,
        "devices": [
            {
                "index": index,
                "mode": device.mode.value,
                "used_milli": device.used_milli,
                "is_healthy": device.healthy,
                "layout": [str(one) for one in device.layout],
                "holders": [_holder(one, state) for one in device.holders],
            }
            for index, device in enumerate(node.devices)
        ],
    }


def _notice(notice: SpotNotice | None) -> wire.NoticeView | None:
    if notice is None:
        return None
    return {
        "source": notice.source,
        "kind": notice.kind.value,
        "at_ms": notice.at_ms,
        "ends_at_ms": notice.ends_at_ms,
    }


def _holder(job_id: str, state: FleetState) -> wire.HolderView:
    record = state.jobs.get(job_id)
    if record is None or job_id == FOREIGN:
        return {"job_id": None, "queue": "outside Bursar"}
    return {"job_id": job_id, "queue": record.spec.queue}


def _hide(pool: wire.FleetPool, seen: frozenset[str]) -> wire.FleetPool:
    nodes = [
        {**node, "devices": [{**one, "holders": _hidden(one, seen)} for one in node["devices"]]}
        for node in pool["nodes"]
    ]
    return {**pool, "nodes": nodes}  # type: ignore[typeddict-item]


def _hidden(device: wire.DeviceView, seen: frozenset[str]) -> list[wire.HolderView]:
    return [
        one
        if one["job_id"] is None or one["queue"] in seen
        else {"job_id": None, "queue": wire.ANOTHER_TENANT}
        for one in device["holders"]
    ]


# -- changing it -------------------------------------------------------------------------------------


async def plan_fleet(call: RequestContext) -> Response:
    """What applying these files would change, and what that would do."""
    declared, _ = await _declared(call)
    plan, _ = await _difference(call, declared)
    return answer(plan)


async def apply_fleet(call: RequestContext) -> Response:
    """Make the fleet what the files say, in one step."""
    declared, expected = await _declared(call)
    plan, changes = await _difference(call, declared)
    refuse_bad_changes(changes)
    sequence = await call.desk.send(
        DeclareFleet(caller=call.who, declared=declared, expected_sequence=expected)
    )
    call.desk.forget_ground()
    call.subject = f"{len(plan['changes'])} changes"
    done: wire.FleetPlan = {"changes": plan["changes"], "sequence": sequence}
    return answer(done)


async def _declared(call: RequestContext) -> tuple[FleetFile, int | None]:
    files, expected = _files_in(await call.json_body())
    return await call.desk.read(parse_fleet, files), expected


def _files_in(plain: Any) -> tuple[dict[str, str], int | None]:
    files = plain.get("files") if isinstance(plain, dict) else None
    if (
        not isinstance(files, dict)
        or not 1 <= len(files) <= MOST_FILES
        or not all(isinstance(text, str) for text in files.values())
        or not set(plain) <= {"files", "expected_sequence"}
    ):
        raise HttpRefusal(
            "the body does not hold fleet files.",
            fix=f'Send {{"files": {{name: text}}}} with 1 to {MOST_FILES} files.',
            code="wrong-value",
        )
    expected = plain.get("expected_sequence")
    if expected is not None and (type(expected) is not int or not 0 <= expected < 2**63):
        raise HttpRefusal(
            "expected_sequence is not a whole number from 0.",
            fix="Take it from the answer of /v1/fleet:plan, or leave it out.",
            code="wrong-value",
        )
    return files, expected


async def _difference(
    call: RequestContext, declared: FleetFile
) -> tuple[wire.FleetPlan, tuple[FleetChange, ...]]:
    """Against what is declared now; its sequence is the name of that declaration."""
    before = call.desk.plane.declaration()
    old = before[0] if before is not None else None

    def question(state: FleetState, _now_ms: int) -> tuple[FleetChange, ...]:
        return fleet_changes(old, declared, state)

    first = fleet_changes(None, declared, None) if old is None else ()
    changes = first if old is None else await call.desk.ask(question)
    plan: wire.FleetPlan = {
        "changes": [
            {
                "kind": one.kind.value,
                "subject": f"{one.subject} {one.field}".rstrip(),
                "before": one.before,
                "after": one.after,
                "effect": f"refused: {one.effect} {one.fix}" if one.is_refused else one.effect,
            }
            for one in changes
        ],
        "sequence": before[1] if before is not None else 0,
    }
    return plan, changes
