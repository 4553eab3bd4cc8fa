"""What monitoring scrapes."""

from __future__ import annotations

from starlette.responses import Response

from bursar.api.call import Call
from bursar.api.metrics import CONTENT_TYPE, exposition
from bursar.api.problems import no_fleet
from bursar.control.access import tenants_seen
from bursar.control.readings import read_now
from bursar.model.identity import MEMBER_OF_ALL


async def scrape(call: Call) -> Response:
    """The figures of now: of the tenants that the caller sees, and of the fleet for those who see it."""
    desk = call.desk
    if desk.plane.declaration() is None:
        raise no_fleet()
    seen = tenants_seen(call.who, (await desk.ground()).tree)
    readings = await desk.wait(desk.plane.ask_live(read_now))
    health = await desk.read(desk.plane.health)
    sees_fleet = call.who.tenant == MEMBER_OF_ALL
    page = exposition(readings, health, seen, sees_fleet=sees_fleet)
    return Response(page, media_type=CONTENT_TYPE)
