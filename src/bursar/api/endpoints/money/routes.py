"""The routes about money. See ``routes.py``."""

from __future__ import annotations

from bursar.accounting.reports.statement import IdlePolicy, StatementStyle
from bursar.api import wire
from bursar.api.endpoints.money import budgets, cost_export, costs, statements
from bursar.api.endpoints.money.day_range import DAY
from bursar.api.endpoints.money.export_formats import CSV, FORMATS, PARQUET
from bursar.api.http.route import Body, Parameter, Reply, Route
from bursar.api.wire.schemas import reference
from bursar.model.tenants.identity import Permission

KIB = 2**10

BY = Parameter(
    name="by",
    about="team, project, queue, user, gpu, market, pool, job, day or label:KEY; up to three, "
    "with commas between them.",
)
FROM = Parameter(name="from", about="The first day (UTC); without it, this month's.", pattern=DAY)
TO = Parameter(name="to", about="The day after the last one; without it, tomorrow.", pattern=DAY)
ROWS = Parameter(name="limit", about="How many rows at most.", least=1, most=100_000)
TENANT = Parameter(name="tenant", about="Of this tenant alone.")

COST = (
    Route(
        method="GET",
        path="/v1/budgets",
        needs=Permission.READ_TENANTS,
        endpoint=budgets.list_budgets,
        about="What is spent, held and left of each budget, and when it is used up at this rate.",
        replies={200: Reply(about="One row for each budget.", kind=wire.BudgetPage)},
    ),
    Route(
        method="GET",
        path="/v1/cost/report",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_report,
        about="What some days cost, by team, user, GPU model and more. Idle capacity is in it for "
        "those who see the whole fleet.",
        replies={200: Reply(about="The report.", kind=wire.CostReportView)},
        query=(BY, FROM, TO, ROWS),
    ),
    Route(
        method="GET",
        path="/v1/cost/diff",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_diff,
        about="What changed from one period to another; without a second one, as many days before.",
        replies={200: Reply(about="The changes.", kind=wire.CostDiff)},
        query=(
            BY,
            FROM,
            TO,
            Parameter(name="before_from", about="The first day to compare with.", pattern=DAY),
            Parameter(name="before_to", about="The day after the last one of these.", pattern=DAY),
            ROWS,
        ),
    ),
    Route(
        method="GET",
        path="/v1/cost/forecast",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_forecast,
        about="When each budget within reach will be used up, and what its period will have cost.",
        replies={200: Reply(about="One row for each budget.", kind=wire.CostForecasts)},
        problems=(404,),
        query=(TENANT,),
    ),
    Route(
        method="GET",
        path="/v1/cost/statement",
        needs=Permission.READ_TENANTS,
        endpoint=statements.cost_statement,
        about="What each payer is shown, or owes, to the cent.",
        replies={200: Reply(about="One statement for each payer.", kind=wire.CostStatements)},
        problems=(404,),
        query=(
            TENANT,
            FROM,
            TO,
            Parameter(
                name="kind",
                about="Whether it is owed; showback if not said.",
                choices=tuple(one.value for one in StatementStyle),
            ),
            Parameter(
                name="idle",
                about="Who bears what nobody used; absorbed (by the platform) if not said.",
                choices=tuple(one.value for one in IdlePolicy),
            ),
            Parameter(
                name="lines",
                about="One line for each job, or for all jobs of a queue.",
                choices=("queues", "jobs"),
            ),
        ),
    ),
    Route(
        method="GET",
        path="/v1/cost/savings",
        needs=Permission.READ_TENANTS,
        endpoint=statements.cost_savings,
        about="What was saved against a baseline with a name.",
        replies={200: Reply(about="One row for each baseline.", kind=wire.CostSavings)},
        query=(
            Parameter(name="baseline", about="Only this one.", choices=tuple(statements.BASELINES)),
            FROM,
            TO,
            Parameter(
                name="price",
                about="What a node of a pool costs an hour on demand, as pool=dollars.",
                is_repeated=True,
            ),
        ),
    ),
    Route(
        method="GET",
        path="/v1/cost/export",
        needs=Permission.READ_TENANTS,
        endpoint=cost_export.cost_export,
        about="Everything of some days as a file: one line for each day, job and place.",
        replies={200: Reply(about="The file.", media=(CSV, wire.JSON, PARQUET))},
        query=(
            Parameter(name="format", about="csv if not said.", choices=tuple(FORMATS)),
            FROM,
            TO,
        ),
    ),
    Route(
        method="POST",
        path="/v1/cost/bills",
        needs=Permission.OPERATE,
        endpoint=statements.take_bill,
        about="Bring the books of days that are over to what a provider billed for a pool.",
        replies={201: Reply(about="What was booked.", kind=wire.BillTaken)},
        body=Body(media={wire.JSON: reference(wire.BillRequest)}, max_bytes=64 * KIB),
        writes=True,
    ),
)
