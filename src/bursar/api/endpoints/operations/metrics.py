"""What monitoring scrapes."""

from __future__ import annotations

from starlette.responses import Response

from bursar.api.endpoints.operations.prometheus import CONTENT_TYPE, exposition
from bursar.api.http.errors import no_fleet
from bursar.api.http.request import RequestContext
from bursar.control.access.permissions import visible_tenants
from bursar.control.queries.metric_values import read_metric_values
from bursar.model.tenants.identity import MEMBER_OF_ALL


async def scrape(call: RequestContext) -> Response:
    """The figures of now: of the tenants that the caller sees, and of the fleet for those who see it."""
    desk = call.desk
    if desk.plane.declaration() is None:
        raise no_fleet()
    seen = visible_tenants(call.who, (await desk.ground()).tree)
    readings = await desk.wait(desk.plane.query_live(read_metric_values))
    health = await desk.read(desk.plane.health)
    sees_fleet = call.who.tenant == MEMBER_OF_ALL
    page = exposition(readings, health, seen, sees_fleet=sees_fleet)
    return Response(page, media_type=CONTENT_TYPE)
