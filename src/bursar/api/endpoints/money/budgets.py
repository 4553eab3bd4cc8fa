"""Where budgets stand, for the tenants that the caller sees."""

from __future__ import annotations

from collections.abc import Collection

from starlette.responses import Response

from bursar.accounting.budgets.budget import BudgetStatus
from bursar.api import wire
from bursar.api.http.request import RequestContext, answer
from bursar.config.job.job_file import JobDocument
from bursar.control.access.permissions import visible_tenants
from bursar.control.live.budget_admission import BudgetAdmission
from bursar.control.live.live_state import LiveState
from bursar.core.admission.admit import submissions
from bursar.core.admission.problem import Problem
from bursar.core.explain.preview import THIS_JOB
from bursar.model.errors import UserError
from bursar.model.tenants.tenant import Budget


async def list_budgets(call: RequestContext) -> Response:
    """What is spent, held and left of each."""
    seen = visible_tenants(call.who, (await call.desk.ground()).tree)

    def question(live: LiveState, now_ms: int) -> list[tuple[BudgetStatus, Budget]]:
        budgets = live.books.budgets
        return [
            (one, budgets.tree.budgets[one.tenant])
            for one in budgets.statuses(now_ms)
            if one.tenant in seen
        ]

    found = await call.desk.wait(call.desk.plane.query_live(question))
    return answer({"items": [_row(one, budget) for one, budget in found]})


def _row(standing: BudgetStatus, budget: Budget) -> wire.BudgetRow:
    step = budget.step_at(standing.level)
    return {
        "tenant": standing.tenant,
        "enforcement": standing.enforcement.value,
        "period": standing.period.value,
        "period_start_ms": standing.period_start_ms,
        "period_end_ms": standing.period_end_ms,
        "amount_micro_usd": standing.amount_micro_usd,
        "spent_micro_usd": standing.spent_micro_usd,
        "held_micro_usd": standing.held_micro_usd,
        "left_micro_usd": standing.left_micro_usd,
        "percent": standing.percent,
        "level": standing.level,
        "action": "" if step is None else step.action.value,
        "micro_usd_per_hour": standing.micro_usd_per_hour,
        "exhausted_ms": standing.exhausted_at_ms,
    }


async def budget_problem(
    call: RequestContext, document: JobDocument, known_models: Collection[str]
) -> Problem | None:
    """Why a hard budget would not let a job in now; None when it would, or when there is none."""
    seen = visible_tenants(call.who, (await call.desk.ground()).tree)

    def question(live: LiveState, now_ms: int) -> Problem | None:
        budgets, state = live.books.budgets, live.state
        if document.spec.queue not in budgets.tree.hard_above:
            return None
        made = submissions(document.spec, THIS_JOB, now_ms, state, known_models)
        door = BudgetAdmission(budgets, state, now_ms)
        try:
            made = door.with_holds(made, document.recipe.grace_seconds)
            door.hold(made, seen.__contains__)
        except UserError as error:
            return Problem(
                code=error.code, field="queue", text=f"has a budget: {error.problem}", fix=error.fix
            )
        return None

    return await call.desk.wait(call.desk.plane.query_live(question))
