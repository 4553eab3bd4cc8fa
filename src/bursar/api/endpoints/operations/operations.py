"""Endpoints for operators: health, audit log, drain and interrupt; and the public ones."""

from __future__ import annotations

from functools import cache
from typing import Any

from bursar import __version__
from bursar.api import wire
from bursar.api.endpoints.pagination import CURSOR, LIMIT, PAGE_SIZE, read_cursor, write_cursor
from bursar.api.endpoints.visibility import find_job
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Open, Route, json_body
from bursar.api.wire import views
from bursar.config.fleet.fleet_file import fleet_schema
from bursar.config.job.job_keys import job_schema
from bursar.control.requests.fleet_requests import InterruptionTimes, InterruptJob, SetNodeUp
from bursar.model.tenants.identity import Permission
from bursar.model.units import SECOND_MS

NOTICE_SECONDS = 30
ABSENCE_SECONDS = 60
MAX_SECONDS = 24 * 3600


@Route("GET", "/healthz", Open.TO_ALL, "It is up.")
async def alive(request: RequestContext) -> wire.Alive:
    """Whether the process is up, and whether it is the leader."""
    return {"status": "ok", "leader": request.context.plane.is_leader, "version": __version__}


cached_job_schema, cached_fleet_schema = cache(job_schema), cache(fleet_schema)


@Route("GET", "/v1/schema/job.json", Open.TO_ALL, "The schema.")
async def job_schema_file(_request: RequestContext) -> dict[str, Any]:
    """The JSON Schema of a job file."""
    return cached_job_schema()


@Route("GET", "/v1/schema/fleet.json", Open.TO_ALL, "The schema.")
async def fleet_schema_file(_request: RequestContext) -> dict[str, Any]:
    """The JSON Schema of a fleet file."""
    return cached_fleet_schema()


@Route("GET", "/v1/health", Permission.OPERATE, "The numbers.")
async def health(request: RequestContext) -> object:
    """The health of the control plane, in numbers."""
    return views.plain(await request.context.run_blocking(request.context.plane.health))


@Route("GET", "/v1/audit", Permission.OPERATE, "A page of entries.", query=(LIMIT, CURSOR))
async def audit(request: RequestContext) -> wire.AuditPage:
    """The audit log: who did or tried what, newest first."""
    limit = request.query.get("limit", PAGE_SIZE)
    before = read_cursor(request.query["cursor"], int)[0] if "cursor" in request.query else None
    rows = await request.read_store(lambda store: store.audit(limit, before))
    return {
        "items": [views.to_wire(entry, wire.AuditRow, number=number) for number, entry in rows],
        "next_cursor": write_cursor(rows[-1][0]) if len(rows) == limit else None,
    }


# -- nodes -------------------------------------------------------------------------------------------


@Route("POST", "/v1/nodes/{node}:drain", Permission.OPERATE, "The node as changed.", writes=True)
async def drain(request: RequestContext) -> wire.NodeChanged:
    """Drain a node: no new job starts on it."""
    return await _set_node_up(request, up=False)


@Route("POST", "/v1/nodes/{node}:restore", Permission.OPERATE, "The node as changed.", writes=True)
async def restore(request: RequestContext) -> wire.NodeChanged:
    """Restore a drained node."""
    return await _set_node_up(request, up=True)


async def _set_node_up(request: RequestContext, *, up: bool) -> wire.NodeChanged:
    node = request.path["node"]
    await request.context.send(SetNodeUp(caller=request.caller, node=node, up=up))
    request.context.invalidate_caches()
    return {"node": node, "action": "restored" if up else "drained"}


@Route(
    "POST",
    "/v1/jobs/{job_id}:interrupt",
    Permission.OPERATE,
    "The node, and when it is lost.",
    problems=(409,),
    body=json_body(wire.InterruptionRequest, max_bytes=4 * 2**10),
    writes=True,
)
async def interrupt(request: RequestContext) -> wire.InterruptedView:
    """Interrupt the virtual node of a running job, with or without a notice, as a test."""
    terms = _read_interruption(await request.json_body())
    row = await find_job(request)
    result = await request.context.send(
        InterruptJob(caller=request.caller, job_id=row.id, terms=terms)
    )
    request.context.invalidate_caches()
    return views.to_wire(result, wire.InterruptedView)


def _read_interruption(plain: Any) -> InterruptionTimes:
    if not isinstance(plain, dict) or not set(plain) <= {"notice_seconds", "absence_seconds"}:
        raise HttpRefusal(
            "the body does not specify an interruption.",
            fix='Send {"notice_seconds": 30, "absence_seconds": 60}; both are optional.',
            code="wrong-value",
        )
    return InterruptionTimes(
        notice_ms=_seconds(plain, "notice_seconds", NOTICE_SECONDS) * SECOND_MS,
        absence_ms=_seconds(plain, "absence_seconds", ABSENCE_SECONDS) * SECOND_MS,
    )


def _seconds(plain: dict[str, Any], name: str, default: int) -> int:
    value = plain.get(name, default)
    if type(value) is not int or not 0 <= value <= MAX_SECONDS:
        raise HttpRefusal(
            f"{name} is {str(value)[:40]!r}, not a whole number of seconds from 0 to {MAX_SECONDS:,}.",
            fix=f"Send a number, or leave it out for {default}.",
            code="wrong-value",
        )
    return value
