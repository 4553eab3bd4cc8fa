"""Reports, comparisons, forecasts and exports of cost, for the queues that the caller may see."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from bursar.accounting.budgets.tenant_forecast import (
    TenantForecast,
    TenantSpending,
    default_tenants,
    forecasts,
    history_start_ms,
)
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.reports.focus import Issuer
from bursar.accounting.reports.group_by import Dimension, GroupBy, Naming, read_axes, write_day
from bursar.accounting.reports.line_item import line_items
from bursar.accounting.reports.report import (
    CostReport,
    ReportRow,
    RowChange,
    changes,
    gpu_hours,
    needs_jobs,
    report,
    total_change,
)
from bursar.api import wire
from bursar.api.endpoints.money.day_range import (
    DAY,
    FROM,
    TENANT,
    TO,
    DayRange,
    Excerpt,
    job_labels,
    read_day,
    read_days,
    read_excerpt,
    require_days,
)
from bursar.api.endpoints.money.export_formats import CSV, FORMATS, PARQUET, ExportFormat
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter, Route
from bursar.api.wire.views import to_wire
from bursar.control.access.permissions import no_such_tenant
from bursar.core.state.fleet_state import FleetState
from bursar.model.tenants.identity import Permission
from bursar.model.units import write_usd

MAX_ROWS = 1_000
BY = Parameter(
    "by",
    "team, project, queue, user, gpu, market, pool, job, day or label:KEY; up to three, "
    "separated by commas.",
)
ROWS = Parameter("limit", "The maximum number of rows.", minimum=1, maximum=100_000)


# -- reports -------------------------------------------------------------------------------------------


@Route("GET", "/v1/cost/report", Permission.READ_TENANTS, "The report.", query=(BY, FROM, TO, ROWS))
async def cost_report(request: RequestContext) -> wire.CostReportView:
    """The cost of some days, by team, user, GPU model and more. It includes idle capacity for
    users who may see the whole fleet.
    """
    axes = read_axes(request.query.get("by", Dimension.TEAM.value))
    days = read_days(request.query, request.context.clock.now_ms())
    visible = await request.visible_queues()
    excerpt, naming, costs = await _report(request, days, axes, visible)
    rows = costs.rows[: request.query.get("limit", MAX_ROWS)]
    return {
        "by": [str(axis) for axis in axes],
        "from_day": days.from_day,
        "to_day": days.to_day,
        "is_over": days.to_ms <= excerpt.now_ms,
        "sees_fleet": visible is None,
        "items": [_row(row, axes, naming) for row in rows],
        "rows": len(costs.rows),
        "total": _row(costs.total, (), naming),
    }


async def _report(
    request: RequestContext,
    days: DayRange,
    axes: Sequence[GroupBy],
    visible: frozenset[str] | None,
) -> tuple[Excerpt, Naming, CostReport]:
    excerpt = await read_excerpt(request, days, visible, with_jobs=needs_jobs(axes))
    labels = await job_labels(request, excerpt.books) if needs_jobs(axes) else None
    naming = excerpt.naming(labels)
    return excerpt, naming, await request.context.run_blocking(report, excerpt.books, axes, naming)


def _row(row: ReportRow, axes: Sequence[GroupBy], naming: Naming) -> wire.CostRow:
    jobs = [n for n, axis in enumerate(axes) if axis.dimension is Dimension.JOB]
    label = naming.tag_of(row.keys[jobs[0]]) if jobs and row.jobs > 0 else None
    return to_wire(
        row,
        wire.CostRow,
        name=label.name if label is not None else "",
        owner=label.owner if label is not None else "",
        gpu_hours=gpu_hours(row.gpu_milli_ms),
        idle_gpu_hours=gpu_hours(row.idle_gpu_milli_ms),
    )


# -- comparisons ---------------------------------------------------------------------------------------


@Route(
    "GET",
    "/v1/cost/diff",
    Permission.READ_TENANTS,
    "The changes.",
    query=(
        BY,
        FROM,
        TO,
        Parameter("before_from", "The first day to compare with.", pattern=DAY),
        Parameter("before_to", "The day after the last day to compare with.", pattern=DAY),
        ROWS,
    ),
)
async def cost_diff(request: RequestContext) -> wire.CostDiff:
    """The change of cost between two periods; by default, against as many days before."""
    axes = read_axes(request.query.get("by", Dimension.TEAM.value))
    days = read_days(request.query, request.context.clock.now_ms())
    earlier = _earlier_days(request, days)
    visible = await request.visible_queues()
    excerpt, _, after = await _report(request, days, axes, visible)
    _, _, before = await _report(request, earlier, axes, visible)
    changed = changes(before, after)
    return {
        "by": [str(axis) for axis in axes],
        "before_from_day": earlier.from_day,
        "before_to_day": earlier.to_day,
        "from_day": days.from_day,
        "to_day": days.to_day,
        "is_over": days.to_ms <= excerpt.now_ms,
        "sees_fleet": visible is None,
        "items": [_change(one) for one in changed[: request.query.get("limit", MAX_ROWS)]],
        "rows": len(changed),
        "total": _change(total_change(before, after)),
    }


def _earlier_days(request: RequestContext, days: DayRange) -> DayRange:
    query = request.query
    if "before_from" not in query and "before_to" not in query:
        return days.before()
    to_ms = read_day("before_to", query["before_to"]) if "before_to" in query else days.from_ms
    length_ms = days.to_ms - days.from_ms
    from_ms = to_ms - length_ms
    if "before_from" in query:
        from_ms = read_day("before_from", query["before_from"])
    return require_days(DayRange(from_ms=from_ms, to_ms=to_ms))


def _change(change: RowChange) -> wire.CostChange:
    return to_wire(
        change,
        wire.CostChange,
        change_micro_usd=change.micro_usd,
        change_permille=change.permille,
        before_gpu_hours=gpu_hours(change.before_gpu_milli_ms),
        after_gpu_hours=gpu_hours(change.after_gpu_milli_ms),
    )


# -- forecasts ------------------------------------------------------------------------------------------


@Route(
    "GET",
    "/v1/cost/forecast",
    Permission.READ_TENANTS,
    "One row for each budget.",
    problems=(404,),
    query=(TENANT,),
)
async def cost_forecast(request: RequestContext) -> wire.CostForecasts:
    """When each budget will be used up, and the cost of its period at the end."""
    tenants = await request.visible_tenants()
    name = request.query.get("tenant")
    if name is not None and name not in tenants:
        raise no_such_tenant(name)

    def query(ledger: Ledger, state: FleetState, now_ms: int) -> tuple[TenantForecast, ...]:
        visible = [tenant for one, tenant in sorted(state.tenants.items()) if one in tenants]
        books = ledger.at(now_ms)
        began_ms = books.first_hour_ms()
        spending = TenantSpending(
            days=books.queue_days(history_start_ms(visible, now_ms)),
            began_ms=now_ms if began_ms is None else began_ms,
            now_ms=now_ms,
        )
        return forecasts(spending, visible, default_tenants(visible) if name is None else (name,))

    return {"items": [_forecast(one) for one in await request.context.query_ledger(query)]}


def _forecast(one: TenantForecast) -> wire.CostForecast:
    return to_wire(
        one.burn_down,
        wire.CostForecast,
        tenant=one.tenant,
        period=one.period.value,
        from_day=write_day(one.from_ms),
        to_day=write_day(one.to_ms),
        enforcement=None if one.budget is None else one.budget.enforcement.value,
        text=_sentence(one),
    )


def _sentence(one: TenantForecast) -> str:
    burn_down = one.burn_down
    spent = (
        f"{one.tenant} has spent {write_usd(burn_down.spent_micro_usd)} this {one.period.value}, "
        f"{write_usd(burn_down.micro_usd_per_day)} a day"
    )
    end = f"about {write_usd(burn_down.end_micro_usd)}"
    if burn_down.amount_micro_usd is None:
        return f"{spent}: {end} by {write_day(one.to_ms)}."
    of_amount = f"of {write_usd(burn_down.amount_micro_usd)}"
    if burn_down.spent_micro_usd >= burn_down.amount_micro_usd:
        return f"{spent}: the budget {of_amount} is spent."
    if burn_down.exhausted_ms is not None and burn_down.exhausted_ms < one.to_ms:
        day = write_day(burn_down.exhausted_ms)
        return f"{spent}: the budget {of_amount} is used up about {day}."
    return f"{spent}: {end} {of_amount} by {write_day(one.to_ms)}."


# -- exports -------------------------------------------------------------------------------------------


@Route(
    "GET",
    "/v1/cost/export",
    Permission.READ_TENANTS,
    "The file.",
    media=(CSV, wire.JSON, PARQUET),
    query=(Parameter("format", "By default csv.", choices=tuple(FORMATS)), FROM, TO),
)
async def cost_export(request: RequestContext) -> Response:
    """The cost of some days as a file: one line for each day, job, pool and kind of cost.

    For callers who see the whole fleet, also idle capacity.
    """
    days = read_days(request.query, request.context.clock.now_ms())
    name = request.query.get("format", "csv")
    excerpt = await read_excerpt(request, days, await request.visible_queues(), with_jobs=True)
    naming = excerpt.naming(await job_labels(request, excerpt.books))
    body = await request.context.run_blocking(_write_export, FORMATS[name], excerpt, naming)
    file = f"bursar-{days.from_day}-{days.to_day}.{FORMATS[name].ending}"
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(body, media_type=FORMATS[name].media, headers=headers)


def _write_export(form: ExportFormat, excerpt: Excerpt, naming: Naming) -> bytes:
    return form.write(line_items(excerpt.books, naming), _issuer(excerpt))


def _issuer(excerpt: Excerpt) -> Issuer:
    """The organisation is the root of the tree, if there is one root."""
    names = {one.name for one in excerpt.tenants}
    roots = [one.name for one in excerpt.tenants if one.parent not in names]
    return Issuer(organisation=roots[0] if len(roots) == 1 else "bursar", pools=excerpt.pools)
