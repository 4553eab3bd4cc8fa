"""Statements, savings, and bills of providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from starlette.responses import Response

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
from bursar.api.endpoints.money.day_range import DayRange, Excerpt, excerpt, read_day, read_span
from bursar.api.endpoints.money.on_demand_prices import (
    OnDemandPrices,
    on_demand_prices,
    read_prices,
)
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, answer
from bursar.control.access.permissions import denied, no_such_tenant, visible_tenants
from bursar.control.requests.price_requests import Bill, RecordBill
from bursar.model.errors import UserError
from bursar.model.tenants.identity import MEMBER_OF_ALL

BASELINES: Mapping[str, Baseline] = {
    "on-demand": Baseline.ON_DEMAND_SAME_HOURS,
    "on-demand-while-used": Baseline.ON_DEMAND_WHILE_USED,
    "no-sharing": Baseline.NO_SHARING,
}
_NAMES = {baseline: name for name, baseline in BASELINES.items()}


# -- statements ----------------------------------------------------------------------------------------


async def cost_statement(call: RequestContext) -> Response:
    """What each team is shown or owes; for whoever does not see the whole fleet, his own tenant."""
    span = read_span(call.query, call.desk.clock.now_ms())
    style = StatementStyle(call.query.get("kind", StatementStyle.SHOWBACK.value))
    idle = IdlePolicy(call.query.get("idle", IdlePolicy.ABSORBED.value))
    tenant = await _whose(call, idle)
    with_jobs = call.query.get("lines") == "jobs"
    found = await excerpt(call, span, None, with_jobs=with_jobs)
    terms = StatementRequest(
        tenants=found.tenants,
        from_ms=span.from_ms,
        to_ms=span.to_ms,
        idle=idle,
        style=style,
        payers=(tenant,) if tenant is not None else _teams(found),
    )
    written = await call.desk.read(statements, found.books, terms)
    mine = [one for one in written.all if tenant in (None, one.payer)]
    if tenant is not None and not mine:
        mine = [_empty(tenant, terms)]
    is_over = span.to_ms <= found.now_ms
    reply: wire.CostStatements = {
        "items": [
            _statement(one if with_jobs else without_jobs(one), idle, span, is_over) for one in mine
        ],
        "micro_usd": sum(one.micro_usd for one in mine),
        "cents": sum(one.cents for one in mine),
    }
    return answer(reply)


async def _whose(call: RequestContext, idle: IdlePolicy) -> str | None:
    """The tenant that is meant; None is all of them."""
    who = call.who
    wanted = call.query.get("tenant")
    if who.tenant == MEMBER_OF_ALL and wanted is None:
        return None
    tenant = who.tenant if wanted is None else str(wanted)
    if tenant not in visible_tenants(who, (await call.desk.ground()).tree):
        raise no_such_tenant(tenant)
    if who.tenant != MEMBER_OF_ALL and idle is not IdlePolicy.ABSORBED:
        raise denied(
            f"sharing out idle capacity ({idle.value}) needs sight of the whole fleet.",
            "Leave idle out, or ask whoever runs the installation for the statement.",
        )
    return tenant


def _teams(found: Excerpt) -> tuple[str, ...]:
    queues = [one.name for one in found.tenants if one.is_queue]
    return found.naming().teams(queues)


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
    one: Statement, idle: IdlePolicy, span: DayRange, is_over: bool
) -> wire.CostStatement:
    return {
        "payer": one.payer,
        "style": one.style.value,
        "idle": idle.value,
        "from_day": span.from_day,
        "to_day": span.to_day,
        "is_over": is_over,
        "lines": [_line(line) for line in one.lines],
        "micro_usd": one.micro_usd,
        "cents": one.cents,
        "owed_cents": one.owed_cents,
    }


def _line(line: StatementLine) -> wire.StatementLineView:
    return {
        "kind": cast(wire.CostKind, line.kind.value),
        "gpu_model": line.gpu_model,
        "market": line.market,
        "queue": line.queue,
        "job_id": line.job_id,
        "gpu_hours": gpu_hours(line.gpu_milli_ms),
        "micro_usd": line.micro_usd,
        "cents": line.cents,
    }


# -- savings -------------------------------------------------------------------------------------------


async def cost_savings(call: RequestContext) -> Response:
    """Against baselines with a name. What sharing saves is everybody's to see of his own queues."""
    span = read_span(call.query, call.desk.clock.now_ms())
    seen = await call.seen()
    wanted = call.query.get("baseline")
    if seen is not None and wanted not in (None, "no-sharing"):
        raise denied(
            f"the baseline {wanted!r} needs sight of the whole fleet.",
            "Ask for no-sharing, or ask whoever runs the installation.",
        )
    found = await excerpt(call, span, seen)
    prices = OnDemandPrices(by_pool={}, warnings=())
    if seen is None and wanted != "no-sharing":
        said = read_prices(call.query.get("price", ()))
        prices = on_demand_prices(found.pools.values(), said, found.now_ms)
        told, prices = _against_all(found, prices, alone=wanted is not None)
    else:
        told = (sharing_saving(found.books.hour_rows()),)
    reply: wire.CostSavings = {
        "from_day": span.from_day,
        "to_day": span.to_day,
        "is_over": span.to_ms <= found.now_ms,
        "items": [_saving(one) for one in told if wanted in (None, _NAMES[one.baseline])],
        "warnings": list(prices.warnings),
    }
    return answer(reply)


def _against_all(
    found: Excerpt, prices: OnDemandPrices, *, alone: bool
) -> tuple[tuple[Saving, ...], OnDemandPrices]:
    """Every baseline; one that lacks a price is left out with a word, unless it alone was asked for."""
    rows = found.books.hour_rows()
    try:
        return savings(rows, prices.by_pool), prices
    except UserError as error:
        if alone:
            raise
        told = f"Nothing is compared with on-demand prices: {error.problem} {error.fix}"
        warnings = (*prices.warnings, told)
        return (sharing_saving(rows),), OnDemandPrices(by_pool=prices.by_pool, warnings=warnings)


def _saving(one: Saving) -> wire.CostSaving:
    return {
        "baseline": cast(wire.BaselineName, _NAMES[one.baseline]),
        "about": one.baseline.value,
        "baseline_micro_usd": one.baseline_micro_usd,
        "cost_micro_usd": one.cost_micro_usd,
        "saved_micro_usd": one.saved_micro_usd,
        "saved_permille": one.saved_milli,
    }


# -- bills ---------------------------------------------------------------------------------------------


async def take_bill(call: RequestContext) -> Response:
    """A provider's bill for whole days of a pool; the difference becomes an entry of its own."""
    bill = _read_bill(await call.json_body())
    call.subject = bill.pool
    done = await call.desk.send(RecordBill(caller=call.who, bill=bill))
    span = DayRange(from_ms=bill.from_ms, to_ms=bill.to_ms)
    reply: wire.BillTaken = {
        "pool": done.bill.pool,
        "flavor": done.bill.flavor,
        "from_day": span.from_day,
        "to_day": span.to_day,
        "metered_micro_usd": done.metered_micro_usd,
        "billed_micro_usd": done.bill.billed_micro_usd,
        "adjustment_micro_usd": done.adjustment_micro_usd,
    }
    return answer(reply, 201)


MOST_MICRO_USD = 10**15
"""A billion dollars: more is a mistake of units."""


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
    if type(billed) is not int or not 0 <= billed <= MOST_MICRO_USD:
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
        "the body is no bill.",
        fix='Send {"pool", "from_day", "to_day", "billed_micro_usd"}; days as YYYY-MM-DD, micro-dollars '
        f"as a whole number from 0 to {MOST_MICRO_USD:,}.",
        code="wrong-value",
    )
