"""The routes about money."""

from __future__ import annotations

from bursar.accounting.reports.statement import IdlePolicy, StatementStyle
from bursar.api import wire
from bursar.api.endpoints.money import budgets, costs, statements
from bursar.api.endpoints.money.day_range import DAY
from bursar.api.endpoints.money.export_formats import CSV, FORMATS, PARQUET
from bursar.api.http.route import Body, Parameter, Reply, Route
from bursar.api.wire.schemas import reference
from bursar.model.tenants.identity import Permission

KIB = 2**10

BY = Parameter(
    name="by",
    about="team, project, queue, user, gpu, market, pool, job, day or label:KEY; up to three, "
    "separated by commas.",
)
FROM = Parameter(
    name="from", about="The first day (UTC); by default, the first of this month.", pattern=DAY
)
TO = Parameter(name="to", about="The day after the last one; by default, tomorrow.", pattern=DAY)
ROWS = Parameter(name="limit", about="The maximum number of rows.", minimum=1, maximum=100_000)
TENANT = Parameter(name="tenant", about="Only this tenant.")

COST = (
    Route(
        method="GET",
        path="/v1/budgets",
        needs=Permission.READ_TENANTS,
        endpoint=budgets.list_budgets,
        about="Amounts spent, held and left of each budget, and when it is used up at the current rate.",
        replies={200: Reply(about="One row for each budget.", kind=wire.BudgetPage)},
    ),
    Route(
        method="GET",
        path="/v1/cost/report",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_report,
        about="The cost of some days, by team, user, GPU model and more. It includes idle capacity for "
        "users who may see the whole fleet.",
        replies={200: Reply(about="The report.", kind=wire.CostReportView)},
        query=(BY, FROM, TO, ROWS),
    ),
    Route(
        method="GET",
        path="/v1/cost/diff",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_diff,
        about="The change of cost between two periods; by default, against as many days before.",
        replies={200: Reply(about="The changes.", kind=wire.CostDiff)},
        query=(
            BY,
            FROM,
            TO,
            Parameter(name="before_from", about="The first day to compare with.", pattern=DAY),
            Parameter(
                name="before_to", about="The day after the last day to compare with.", pattern=DAY
            ),
            ROWS,
        ),
    ),
    Route(
        method="GET",
        path="/v1/cost/forecast",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_forecast,
        about="When each budget will be used up, and the cost of its period at the end.",
        replies={200: Reply(about="One row for each budget.", kind=wire.CostForecasts)},
        problems=(404,),
        query=(TENANT,),
    ),
    Route(
        method="GET",
        path="/v1/cost/statement",
        needs=Permission.READ_TENANTS,
        endpoint=statements.cost_statement,
        about="Statements for each payer, to the cent.",
        replies={200: Reply(about="One statement for each payer.", kind=wire.CostStatements)},
        problems=(404,),
        query=(
            TENANT,
            FROM,
            TO,
            Parameter(
                name="kind",
                about="Whether the amount is owed; by default showback.",
                choices=tuple(one.value for one in StatementStyle),
            ),
            Parameter(
                name="idle",
                about="Who pays for idle capacity; by default absorbed, by the platform.",
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
        about="Savings against a named baseline.",
        replies={200: Reply(about="One row for each baseline.", kind=wire.CostSavings)},
        query=(
            Parameter(
                name="baseline", about="Only this baseline.", choices=tuple(statements.BASELINES)
            ),
            FROM,
            TO,
            Parameter(
                name="price",
                about="The hourly on-demand price of a pool's node, as pool=dollars.",
                is_repeated=True,
            ),
        ),
    ),
    Route(
        method="GET",
        path="/v1/cost/export",
        needs=Permission.READ_TENANTS,
        endpoint=costs.cost_export,
        about="The cost of some days as a file: one line for each day, job, pool and kind of cost.",
        replies={200: Reply(about="The file.", media=(CSV, wire.JSON, PARQUET))},
        query=(
            Parameter(name="format", about="By default csv.", choices=tuple(FORMATS)),
            FROM,
            TO,
        ),
    ),
    Route(
        method="POST",
        path="/v1/cost/bills",
        needs=Permission.OPERATE,
        endpoint=statements.take_bill,
        about="Adjust the ledger of past days to a provider's bill for a pool.",
        replies={201: Reply(about="The adjustment.", kind=wire.BillTaken)},
        body=Body(media={wire.JSON: reference(wire.BillRequest)}, max_bytes=64 * KIB),
        writes=True,
    ),
)
