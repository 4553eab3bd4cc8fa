"""What a cycle does about spent budgets: stop what must stop, and keep no place for who may not start."""

from __future__ import annotations

from bursar.core.draft import Draft
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import EvacuateJob, ReleaseClaim, StopJob, StopReason
from bursar.model.jobs.job import JobState
from bursar.model.tenants.tenant import BudgetAction

_STOPPABLE = (JobState.STARTING, JobState.RUNNING)


def attempts_over_budget(state: FleetState) -> list[JobRecord]:
    """Attempts that a budget wants stopped and that have not been told; their jobs will wait again."""
    return [
        record
        for queue, action in sorted(state.budgets.stops.items())
        for _, record in sorted(state.running_in.get(queue, {}).items())
        if record.state in _STOPPABLE
        and not record.stop_requested
        and (record.spec.preemptible or action is BudgetAction.STOP_ALL)
    ]


def stop_over_budget(draft: Draft) -> None:
    """Tell them; who was told to stop for another reason already is left alone."""
    told = {one.job_id for one in draft.orders if isinstance(one, StopJob | EvacuateJob)}
    for record in attempts_over_budget(draft.state):
        if record.id not in told:
            draft.orders.append(
                StopJob(job_id=record.id, attempt=record.attempt, reason=StopReason.BUDGET)
            )
            draft.victims.add(record.id)


def release_unaffordable_claims(draft: Draft) -> set[str]:
    """A place is not kept for a job whose budget lets nothing start. Whose it was is told."""
    given_up: set[str] = set()
    for job_id, record in sorted(draft.state.claims.items()):
        reasons = draft.state.budgets.holds.get(record.spec.queue)
        if reasons is not None:
            draft.orders.append(ReleaseClaim(job_id=job_id))
            draft.hold_jobs([record], reasons)
            given_up.add(job_id)
    return given_up
