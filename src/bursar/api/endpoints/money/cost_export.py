"""Everything of some days as a file."""

from __future__ import annotations

from starlette.responses import Response

from bursar.accounting.reports.focus import Issuer
from bursar.accounting.reports.group_by import Naming
from bursar.accounting.reports.line_item import line_items
from bursar.api.endpoints.money.day_range import Excerpt, excerpt, read_span, tags_of
from bursar.api.endpoints.money.export_formats import FORMATS, ExportFormat
from bursar.api.http.request import RequestContext


async def cost_export(call: RequestContext) -> Response:
    """One line for each day, job and place; with sight of the whole fleet, also what nobody used."""
    span = read_span(call.query, call.desk.clock.now_ms())
    name = call.query.get("format", "csv")
    found = await excerpt(call, span, await call.seen(), with_jobs=True)
    naming = found.naming(await tags_of(call, found.books))
    body = await call.desk.read(_written, FORMATS[name], found, naming)
    file = f"bursar-{span.from_day}-{span.to_day}.{FORMATS[name].ending}"
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(body, media_type=FORMATS[name].media, headers=headers)


def _written(form: ExportFormat, found: Excerpt, naming: Naming) -> bytes:
    return form.write(line_items(found.books, naming), _issuer(found))


def _issuer(found: Excerpt) -> Issuer:
    """The organisation is the root of the tree, where there is one."""
    names = {one.name for one in found.tenants}
    roots = [one.name for one in found.tenants if one.parent not in names]
    return Issuer(organisation=roots[0] if len(roots) == 1 else "bursar", pools=found.pools)
