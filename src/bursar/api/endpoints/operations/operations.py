"""Endpoints for operators: health, audit log, drain and interrupt; and the public ones."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.responses import Response

from bursar import __version__
from bursar.api import wire
from bursar.api.endpoints.pagination import read_cursor, write_cursor
from bursar.api.endpoints.visibility import find_job
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, json_response
from bursar.api.wire import views
from bursar.config.fleet.fleet_file import fleet_schema
from bursar.config.job.job_keys import job_schema
from bursar.control.requests.fleet_requests import InterruptionRequest, InterruptJob, SetNodeUp
from bursar.model.units import SECOND_MS

PAGE_SIZE = 100
NOTICE_SECONDS = 30
ABSENCE_SECONDS = 60
MAX_SECONDS = 24 * 3600


async def alive(request: RequestContext) -> Response:
    """Whether the process is up; public, so nothing else is sent."""
    view: wire.Alive = {
        "status": "ok",
        "leader": request.context.plane.is_leader,
        "version": __version__,
    }
    return json_response(view)


async def job_schema_file(_request: RequestContext) -> Response:
    return json_response(_job_schema())


async def fleet_schema_file(_request: RequestContext) -> Response:
    return json_response(_fleet_schema())


@cache
def _job_schema() -> dict[str, Any]:
    return job_schema()


@cache
def _fleet_schema() -> dict[str, Any]:
    return fleet_schema()


async def health(request: RequestContext) -> Response:
    return json_response(
        views.plain(await request.context.run_blocking(request.context.plane.health))
    )


async def audit(request: RequestContext) -> Response:
    """A page of the audit log, newest first."""
    limit = request.query.get("limit", PAGE_SIZE)
    before = read_cursor(request.query["cursor"], int)[0] if "cursor" in request.query else None
    rows = await request.context.run_blocking(request.context.plane.reader.audit, limit, before)
    page: wire.AuditPage = {
        "items": [views.to_wire(entry, wire.AuditRow, number=number) for number, entry in rows],
        "next_cursor": write_cursor(rows[-1][0]) if len(rows) == limit else None,
    }
    return json_response(page)


# -- nodes -------------------------------------------------------------------------------------------


async def drain(request: RequestContext) -> Response:
    """Drains a node: no new job starts on it."""
    return await _set_node_up(request, up=False)


async def restore(request: RequestContext) -> Response:
    """Lets jobs start on a node again."""
    return await _set_node_up(request, up=True)


async def _set_node_up(request: RequestContext, *, up: bool) -> Response:
    node = request.path["node"]
    await request.context.send(SetNodeUp(caller=request.caller, node=node, up=up))
    request.context.invalidate_caches()
    view: wire.NodeChanged = {"node": node, "action": "restored" if up else "drained"}
    return json_response(view)


async def interrupt(request: RequestContext) -> Response:
    """Interrupts the node of a running job as a provider would, with or without a notice."""
    terms = _read_interruption(await request.json_body())
    row = await find_job(request)
    result = await request.context.send(
        InterruptJob(caller=request.caller, job_id=row.id, terms=terms)
    )
    request.context.invalidate_caches()
    return json_response(views.to_wire(result, wire.InterruptedView))


def _read_interruption(plain: Any) -> InterruptionRequest:
    if not isinstance(plain, dict) or not set(plain) <= {"notice_seconds", "absence_seconds"}:
        raise HttpRefusal(
            "the body does not specify an interruption.",
            fix='Send {"notice_seconds": 30, "absence_seconds": 60}; both are optional.',
            code="wrong-value",
        )
    return InterruptionRequest(
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
