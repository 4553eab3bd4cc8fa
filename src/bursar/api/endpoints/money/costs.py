"""Reports, changes and forecasts of cost, for the queues that the caller sees."""

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
from bursar.accounting.reports.group_by import Dimension, GroupBy, Naming, read_axes, write_day
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
    DayRange,
    Excerpt,
    checked,
    excerpt,
    read_day,
    read_span,
    tags_of,
)
from bursar.api.http.request import RequestContext, answer
from bursar.control.access.permissions import no_such_tenant, visible_tenants
from bursar.core.state.fleet_state import FleetState
from bursar.model.units import write_usd

ROWS = 1_000


# -- what it cost --------------------------------------------------------------------------------------


async def cost_report(call: RequestContext) -> Response:
    """What the days cost, along the dimensions asked for."""
    axes = read_axes(call.query.get("by", Dimension.TEAM.value))
    span = read_span(call.query, call.desk.clock.now_ms())
    seen = await call.seen()
    found, naming, told = await _told(call, span, axes, seen)
    shown = told.rows[: call.query.get("limit", ROWS)]
    reply: wire.CostReportView = {
        "by": [str(axis) for axis in axes],
        "from_day": span.from_day,
        "to_day": span.to_day,
        "is_over": span.to_ms <= found.now_ms,
        "sees_fleet": seen is None,
        "items": [_row(row, axes, naming) for row in shown],
        "rows": len(told.rows),
        "total": _row(told.total, (), naming),
    }
    return answer(reply)


async def _told(
    call: RequestContext, span: DayRange, axes: Sequence[GroupBy], seen: frozenset[str] | None
) -> tuple[Excerpt, Naming, CostReport]:
    found = await excerpt(call, span, seen, with_jobs=needs_jobs(axes))
    tags = await tags_of(call, found.books) if needs_jobs(axes) else None
    naming = found.naming(tags)
    return found, naming, await call.desk.read(report, found.books, axes, naming)


def _row(row: ReportRow, axes: Sequence[GroupBy], naming: Naming) -> wire.CostRow:
    jobs = [n for n, axis in enumerate(axes) if axis.dimension is Dimension.JOB]
    tag = naming.tag_of(row.keys[jobs[0]]) if jobs else None
    is_job = tag is not None and row.jobs > 0
    return {
        "keys": list(row.keys),
        "name": tag.name if tag is not None and is_job else "",
        "owner": tag.owner if tag is not None and is_job else "",
        "usage_micro_usd": row.usage_micro_usd,
        "waste_micro_usd": row.waste_micro_usd,
        "idle_micro_usd": row.idle_micro_usd,
        "reserved_micro_usd": row.reserved_micro_usd,
        "foreign_micro_usd": row.foreign_micro_usd,
        "adjustment_micro_usd": row.adjustment_micro_usd,
        "total_micro_usd": row.total_micro_usd,
        "gpu_hours": gpu_hours(row.gpu_milli_ms),
        "idle_gpu_hours": gpu_hours(row.idle_gpu_milli_ms),
        "jobs": row.jobs,
    }


# -- what changed --------------------------------------------------------------------------------------


async def cost_diff(call: RequestContext) -> Response:
    """Two periods, row by row. Without a second one, as many days just before the first."""
    axes = read_axes(call.query.get("by", Dimension.TEAM.value))
    span = read_span(call.query, call.desk.clock.now_ms())
    earlier = _earlier(call, span)
    seen = await call.seen()
    found, _, after = await _told(call, span, axes, seen)
    _, _, before = await _told(call, earlier, axes, seen)
    changed = changes(before, after)
    reply: wire.CostDiff = {
        "by": [str(axis) for axis in axes],
        "before_from_day": earlier.from_day,
        "before_to_day": earlier.to_day,
        "from_day": span.from_day,
        "to_day": span.to_day,
        "is_over": span.to_ms <= found.now_ms,
        "sees_fleet": seen is None,
        "items": [_change(one) for one in changed[: call.query.get("limit", ROWS)]],
        "rows": len(changed),
        "total": _change(total_change(before, after)),
    }
    return answer(reply)


def _earlier(call: RequestContext, span: DayRange) -> DayRange:
    query = call.query
    if "before_from" not in query and "before_to" not in query:
        return span.before()
    to_ms = read_day("before_to", query["before_to"]) if "before_to" in query else span.from_ms
    length_ms = span.to_ms - span.from_ms
    from_ms = to_ms - length_ms
    if "before_from" in query:
        from_ms = read_day("before_from", query["before_from"])
    return checked(DayRange(from_ms=from_ms, to_ms=to_ms))


def _change(change: RowChange) -> wire.CostChange:
    return {
        "keys": list(change.keys),
        "before_micro_usd": change.before_micro_usd,
        "after_micro_usd": change.after_micro_usd,
        "change_micro_usd": change.micro_usd,
        "change_permille": change.permille,
        "before_gpu_hours": gpu_hours(change.before_gpu_milli_ms),
        "after_gpu_hours": gpu_hours(change.after_gpu_milli_ms),
    }


# -- what it will cost ---------------------------------------------------------------------------------


async def cost_forecast(call: RequestContext) -> Response:
    """The burn-down of every budget within reach, and of a tenant that is named."""
    reach = visible_tenants(call.who, (await call.desk.ground()).tree)
    wanted = call.query.get("tenant")
    if wanted is not None and wanted not in reach:
        raise no_such_tenant(wanted)

    def question(ledger: Ledger, state: FleetState, now_ms: int) -> tuple[TenantForecast, ...]:
        seen = [tenant for name, tenant in sorted(state.tenants.items()) if name in reach]
        books = ledger.at(now_ms)
        began_ms = books.first_hour_ms()
        spent = TenantSpending(
            days=books.queue_days(history_start_ms(seen, now_ms)),
            began_ms=now_ms if began_ms is None else began_ms,
            now_ms=now_ms,
        )
        names = default_tenants(seen) if wanted is None else (wanted,)
        return forecasts(spent, seen, names)

    found = await call.desk.query_ledger(question)
    reply: wire.CostForecasts = {"items": [_forecast(one) for one in found]}
    return answer(reply)


def _forecast(found: TenantForecast) -> wire.CostForecast:
    told = found.burn_down
    return {
        "tenant": found.tenant,
        "period": found.period.value,
        "from_day": write_day(found.from_ms),
        "to_day": write_day(found.to_ms),
        "enforcement": None if found.budget is None else found.budget.enforcement.value,
        "amount_micro_usd": told.amount_micro_usd,
        "spent_micro_usd": told.spent_micro_usd,
        "left_micro_usd": told.left_micro_usd,
        "micro_usd_per_day": told.micro_usd_per_day,
        "end_micro_usd": told.end_micro_usd,
        "low_end_micro_usd": told.low_end_micro_usd,
        "high_end_micro_usd": told.high_end_micro_usd,
        "exhausted_ms": told.exhausted_ms,
        "earliest_ms": told.earliest_ms,
        "latest_ms": told.latest_ms,
        "basis": told.basis,
        "text": _sentence(found),
    }


def _sentence(found: TenantForecast) -> str:
    told = found.burn_down
    so_far = (
        f"{found.tenant} has spent {write_usd(told.spent_micro_usd)} this {found.period.value}, "
        f"{write_usd(told.micro_usd_per_day)} a day"
    )
    if told.amount_micro_usd is None:
        return f"{so_far}: about {write_usd(told.end_micro_usd)} by {write_day(found.to_ms)}."
    of = f"of {write_usd(told.amount_micro_usd)}"
    if told.spent_micro_usd >= told.amount_micro_usd:
        return f"{so_far}: the budget {of} is spent."
    if told.exhausted_ms is not None and told.exhausted_ms < found.to_ms:
        return f"{so_far}: the budget {of} is used up about {write_day(told.exhausted_ms)}."
    return f"{so_far}: about {write_usd(told.end_micro_usd)} {of} by {write_day(found.to_ms)}."
