"""Statements, savings, and providers' bills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bursar.accounting.reports.report import gpu_hours
from bursar.accounting.reports.savings import Baseline, Saving, savings, sharing_saving
from bursar.accounting.reports.statement import (
    IdlePolicy,
    Statement,
    StatementLine,
    StatementRequest,
    StatementStyle,
    statements,
    without_jobs,
)
from bursar.api import wire
from bursar.api.endpoints.money.day_range import (
    FROM,
    TENANT,
    TO,
    DayRange,
    Excerpt,
    read_day,
    read_days,
    read_excerpt,
)
from bursar.api.endpoints.money.on_demand_prices import (
    OnDemandPrices,
    on_demand_prices,
    read_prices,
)
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter, Route, json_body
from bursar.api.wire.views import to_wire
from bursar.control.access.permissions import denied, no_such_tenant
from bursar.control.requests.price_requests import Bill, RecordBill
from bursar.model.errors import UserError
from bursar.model.tenants.identity import MEMBER_OF_ALL, Permission

BASELINES: Mapping[str, Baseline] = {
    "on-demand": Baseline.ON_DEMAND_SAME_HOURS,
    "on-demand-while-used": Baseline.ON_DEMAND_WHILE_USED,
    "no-sharing": Baseline.NO_SHARING,
}
_NAMES = {baseline: name for name, baseline in BASELINES.items()}


# -- statements ----------------------------------------------------------------------------------------


@Route(
    "GET",
    "/v1/cost/statement",
    Permission.READ_TENANTS,
    "One statement for each payer.",
    problems=(404,),
    query=(
        TENANT,
        FROM,
        TO,
        Parameter(
            "kind",
            "Whether the amount is owed; by default showback.",
            choices=tuple(one.value for one in StatementStyle),
        ),
        Parameter(
            "idle",
            "Who pays for idle capacity; by default absorbed, by the platform.",
            choices=tuple(one.value for one in IdlePolicy),
        ),
        Parameter(
            "lines",
            "One line for each job, or for all jobs of a queue.",
            choices=("queues", "jobs"),
        ),
    ),
)
async def cost_statement(request: RequestContext) -> wire.CostStatements:
    """Statements for each payer, to the cent.

    Of all teams; without access to the whole fleet, of the caller's tenant.
    """
    days = read_days(request.query, request.context.clock.now_ms())
    style = StatementStyle(request.query.get("kind", StatementStyle.SHOWBACK.value))
    idle = IdlePolicy(request.query.get("idle", IdlePolicy.ABSORBED.value))
    tenant = await _payer(request, idle)
    with_jobs = request.query.get("lines") == "jobs"
    excerpt = await read_excerpt(request, days, None, with_jobs=with_jobs)
    terms = StatementRequest(
        tenants=excerpt.tenants,
        from_ms=days.from_ms,
        to_ms=days.to_ms,
        idle=idle,
        style=style,
        payers=(tenant,) if tenant is not None else _teams(excerpt),
    )
    all_statements = await request.context.run_blocking(statements, excerpt.books, terms)
    selected = [one for one in all_statements.all if tenant in (None, one.payer)]
    if tenant is not None and not selected:
        selected = [_empty(tenant, terms)]
    is_over = days.to_ms <= excerpt.now_ms
    return {
        "items": [
            _statement(one if with_jobs else without_jobs(one), idle, days, is_over)
            for one in selected
        ],
        "micro_usd": sum(one.micro_usd for one in selected),
        "cents": sum(one.cents for one in selected),
    }


async def _payer(request: RequestContext, idle: IdlePolicy) -> str | None:
    """The tenant whose statement is requested; None means all."""
    caller = request.caller
    name = request.query.get("tenant")
    if caller.tenant == MEMBER_OF_ALL and name is None:
        return None
    tenant = caller.tenant if name is None else str(name)
    if tenant not in await request.visible_tenants():
        raise no_such_tenant(tenant)
    if caller.tenant != MEMBER_OF_ALL and idle is not IdlePolicy.ABSORBED:
        raise denied(
            f"distributing idle capacity ({idle.value}) needs access to the whole fleet.",
            "Leave 'idle' out, or ask an operator for the statement.",
        )
    return tenant


def _teams(excerpt: Excerpt) -> tuple[str, ...]:
    queues = [one.name for one in excerpt.tenants if one.is_queue]
    return excerpt.naming().teams(queues)


def _empty(tenant: str, terms: StatementRequest) -> Statement:
    return Statement(
        payer=tenant,
        style=terms.style,
        from_ms=terms.from_ms,
        to_ms=terms.to_ms,
        lines=(),
        micro_usd=0,
        cents=0,
    )


def _statement(
    one: Statement, idle: IdlePolicy, days: DayRange, is_over: bool
) -> wire.CostStatement:
    return to_wire(
        one,
        wire.CostStatement,
        idle=idle.value,
        from_day=days.from_day,
        to_day=days.to_day,
        is_over=is_over,
        lines=[_line(line) for line in one.lines],
    )


def _line(line: StatementLine) -> wire.StatementLineView:
    return to_wire(line, wire.StatementLineView, gpu_hours=gpu_hours(line.gpu_milli_ms))


# -- savings -------------------------------------------------------------------------------------------


@Route(
    "GET",
    "/v1/cost/savings",
    Permission.READ_TENANTS,
    "One row for each baseline.",
    query=(
        Parameter("baseline", "Only this baseline.", choices=tuple(BASELINES)),
        FROM,
        TO,
        Parameter(
            "price",
            "The hourly on-demand price of a pool's node, as pool=dollars.",
            is_repeated=True,
        ),
    ),
)
async def cost_savings(request: RequestContext) -> wire.CostSavings:
    """Savings against a named baseline.

    Every caller may see what sharing saves on its queues.
    """
    days = read_days(request.query, request.context.clock.now_ms())
    visible = await request.visible_queues()
    name = request.query.get("baseline")
    if visible is not None and name not in (None, "no-sharing"):
        raise denied(
            f"the baseline {name!r} needs access to the whole fleet.",
            "Use no-sharing, or ask an operator.",
        )
    excerpt = await read_excerpt(request, days, visible)
    prices = OnDemandPrices(by_pool={}, warnings=())
    if visible is None and name != "no-sharing":
        overrides = read_prices(request.query.get("price", ()))
        book = request.context.settings.price_book
        prices = on_demand_prices(excerpt.pools.values(), overrides, book, excerpt.now_ms)
        rows, prices = _all_savings(excerpt, prices, is_required=name is not None)
    else:
        rows = (sharing_saving(excerpt.books.hour_rows()),)
    return {
        "from_day": days.from_day,
        "to_day": days.to_day,
        "is_over": days.to_ms <= excerpt.now_ms,
        "items": [_saving(one) for one in rows if name in (None, _NAMES[one.baseline])],
        "warnings": list(prices.warnings),
    }


def _all_savings(
    excerpt: Excerpt, prices: OnDemandPrices, *, is_required: bool
) -> tuple[tuple[Saving, ...], OnDemandPrices]:
    """Savings against all baselines; without a price, only those of sharing, with a warning."""
    rows = excerpt.books.hour_rows()
    try:
        return savings(rows, prices.by_pool), prices
    except UserError as error:
        if is_required:
            raise
        warning = f"No comparison with on-demand prices: {error.problem} {error.fix}"
        warnings = (*prices.warnings, warning)
        return (sharing_saving(rows),), OnDemandPrices(by_pool=prices.by_pool, warnings=warnings)


def _saving(one: Saving) -> wire.CostSaving:
    return to_wire(
        one,
        wire.CostSaving,
        baseline=_NAMES[one.baseline],
        about=one.baseline.value,
        saved_permille=one.saved_milli,
    )


# -- bills ---------------------------------------------------------------------------------------------


@Route(
    "POST",
    "/v1/cost/bills",
    Permission.OPERATE,
    "The adjustment.",
    status=201,
    body=json_body(wire.BillRequest, max_bytes=64 * 2**10),
    writes=True,
)
async def take_bill(request: RequestContext) -> wire.BillTaken:
    """Adjust the ledger of past days to a provider's bill for a pool."""
    bill = _read_bill(await request.json_body())
    request.subject = bill.pool
    result = await request.context.send(RecordBill(caller=request.caller, bill=bill))
    days = DayRange(from_ms=bill.from_ms, to_ms=bill.to_ms)
    return to_wire(
        result,
        wire.BillTaken,
        pool=result.bill.pool,
        flavor=result.bill.flavor,
        from_day=days.from_day,
        to_day=days.to_day,
        billed_micro_usd=result.bill.billed_micro_usd,
    )


MAX_MICRO_USD = 10**15
"""A billion dollars: more is an error of units."""


def _read_bill(plain: Any) -> Bill:
    texts = {"pool": "", "from_day": "", "to_day": "", "flavor": ""}
    if not isinstance(plain, dict) or not set(plain) <= {*texts, "billed_micro_usd"}:
        raise _bad_bill()
    for name in texts:
        value = plain.get(name, "")
        if not isinstance(value, str) or (name != "flavor" and not value):
            raise _bad_bill()
        texts[name] = value
    billed = plain.get("billed_micro_usd")
    if type(billed) is not int or not 0 <= billed <= MAX_MICRO_USD:
        raise _bad_bill()
    return Bill(
        pool=texts["pool"],
        from_ms=read_day("from_day", texts["from_day"]),
        to_ms=read_day("to_day", texts["to_day"]),
        billed_micro_usd=billed,
        flavor=texts["flavor"],
    )


def _bad_bill() -> UserError:
    return HttpRefusal(
        "the body is not a bill.",
        fix='Send {"pool", "from_day", "to_day", "billed_micro_usd"}; days as YYYY-MM-DD, micro-dollars '
        f"as a whole number from 0 to {MAX_MICRO_USD:,}.",
        code="wrong-value",
    )
