"""For whoever runs the installation, and for whoever only wants to know that it is there."""

from __future__ import annotations

from functools import cache
from typing import Any

from starlette.responses import Response

from bursar import __version__
from bursar.api import wire
from bursar.api.endpoints.pagination import read_cursor, write_cursor
from bursar.api.http.request import RequestContext, answer
from bursar.api.wire import views
from bursar.config.job.job_schema import fleet_schema, job_schema
from bursar.control.requests.fleet_requests import SetNodeUp

PAGE = 100


async def alive(call: RequestContext) -> Response:
    """Whether the process answers; says nothing that is worth a token."""
    found: wire.Alive = {
        "status": "ok",
        "leader": call.desk.plane.is_leader,
        "version": __version__,
    }
    return answer(found)


async def job_schema_file(_call: RequestContext) -> Response:
    return answer(_job_schema())


async def fleet_schema_file(_call: RequestContext) -> Response:
    return answer(_fleet_schema())


@cache
def _job_schema() -> dict[str, Any]:
    return job_schema()


@cache
def _fleet_schema() -> dict[str, Any]:
    return fleet_schema()


async def health(call: RequestContext) -> Response:
    """How the control plane is doing, in numbers."""
    return answer(views.plain(await call.desk.read(call.desk.plane.health)))


async def audit(call: RequestContext) -> Response:
    """Who did or tried what, newest first."""
    limit = call.query.get("limit", PAGE)
    before = read_cursor(call.query["cursor"], int)[0] if "cursor" in call.query else None
    rows = await call.desk.read(call.desk.plane.reader.audit, limit, before)
    page: wire.AuditPage = {
        "items": [
            {
                "number": number,
                "at_ms": entry.at_ms,
                "user": entry.user,
                "token_id": entry.token_id,
                "action": entry.action,
                "subject": entry.subject,
                "outcome": entry.outcome,
                "detail": entry.detail,
            }
            for number, entry in rows
        ],
        "next_cursor": write_cursor(rows[-1][0]) if len(rows) == limit else None,
    }
    return answer(page)


async def drain(call: RequestContext) -> Response:
    """Let nothing new start on a node."""
    node = call.path["node"]
    await call.desk.send(SetNodeUp(caller=call.who, node=node, up=False))
    call.desk.forget_ground()
    changed: wire.NodeChanged = {"node": node, "action": "drained"}
    return answer(changed)


async def restore(call: RequestContext) -> Response:
    """Let a node take jobs again."""
    node = call.path["node"]
    await call.desk.send(SetNodeUp(caller=call.who, node=node, up=True))
    call.desk.forget_ground()
    changed: wire.NodeChanged = {"node": node, "action": "restored"}
    return answer(changed)
