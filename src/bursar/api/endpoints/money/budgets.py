"""The status of budgets, for the tenants that the caller may see."""

from __future__ import annotations

from collections.abc import Collection

from bursar.accounting.budgets.budget import BudgetStatus
from bursar.api import wire
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Route
from bursar.api.wire.views import to_wire
from bursar.config.job.job_file import JobDocument
from bursar.control.live.budget_admission import BudgetAdmission
from bursar.control.live.live_state import LiveState
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import submissions
from bursar.core.admission.problem import Problem
from bursar.core.explain.preview import THIS_JOB
from bursar.model.errors import UserError
from bursar.model.tenants.identity import Permission
from bursar.model.tenants.tenant import Budget


@Route("GET", "/v1/budgets", Permission.READ_TENANTS, "One row for each budget.")
async def list_budgets(request: RequestContext) -> wire.BudgetPage:
    """Amounts spent, held and left of each budget, and when it is used up at the current rate."""
    visible = await request.visible_tenants()

    def query(live: LiveState, now_ms: int) -> list[tuple[BudgetStatus, Budget]]:
        budgets = live.books.budgets
        return [
            (one, budgets.tree.budgets[one.tenant])
            for one in budgets.statuses(now_ms)
            if one.tenant in visible
        ]

    statuses = await request.context.wait(request.context.plane.query_live(query))
    return {"items": [_row(one, budget) for one, budget in statuses]}


def _row(status: BudgetStatus, budget: Budget) -> wire.BudgetRow:
    step = budget.step_at(status.level)
    return to_wire(
        status,
        wire.BudgetRow,
        action="" if step is None else step.action.value,
        exhausted_ms=status.exhausted_at_ms,
    )


async def budget_problem(
    request: RequestContext, document: JobDocument, known_models: Collection[str]
) -> Problem | None:
    """Why a hard budget would refuse a job now; None if it would not, or there is none."""
    visible = await request.visible_tenants()

    def query(live: LiveState, now_ms: int) -> Problem | None:
        budgets, state = live.books.budgets, live.state
        if document.spec.queue not in budgets.tree.hard_above:
            return None
        admission_request = AdmissionRequest(
            spec=document.spec,
            job_id=THIS_JOB,
            at_ms=now_ms,
            state=state,
            known_models=known_models,
        )
        events = submissions(admission_request)
        admission = BudgetAdmission(budgets, state, now_ms)
        try:
            events = admission.with_holds(events, document.recipe.grace_seconds)
            admission.hold(events, visible.__contains__)
        except UserError as error:
            return Problem(
                code=error.code, field="queue", text=f"has a budget: {error.problem}", fix=error.fix
            )
        return None

    return await request.context.wait(request.context.plane.query_live(query))
