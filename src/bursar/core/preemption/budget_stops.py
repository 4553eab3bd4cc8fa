"""Stops attempts over budget, and releases claims of jobs that may not start."""

from __future__ import annotations

from bursar.core.draft import Draft
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import EvacuateJob, ReleaseClaim, StopJob, StopReason
from bursar.model.jobs.job import JobState
from bursar.model.tenants.tenant import BudgetAction

_STOPPABLE = (JobState.STARTING, JobState.RUNNING)


def attempts_over_budget(state: FleetState) -> list[JobRecord]:
    """Live attempts that a spent budget stops and that are not stopping yet; their jobs will wait again."""
    return [
        record
        for queue, action in sorted(state.budgets.stops.items())
        for _, record in sorted(state.running_in.get(queue, {}).items())
        if record.state in _STOPPABLE
        and not record.stop_requested
        and (record.spec.preemptible or action is BudgetAction.STOP_ALL)
    ]


def stop_over_budget(draft: Draft) -> None:
    """Order attempts over budget to stop, unless this cycle has already ordered it."""
    already_stopped = {one.job_id for one in draft.orders if isinstance(one, StopJob | EvacuateJob)}
    for record in attempts_over_budget(draft.state):
        if record.id not in already_stopped:
            draft.orders.append(
                StopJob(job_id=record.id, attempt=record.attempt, reason=StopReason.BUDGET)
            )
            draft.victims.add(record.id)


def release_unaffordable_claims(draft: Draft) -> set[str]:
    """Release the claims of jobs whose budget blocks new starts; returns their ids."""
    released: set[str] = set()
    for job_id, record in sorted(draft.state.claims.items()):
        reasons = draft.state.budgets.holds.get(record.spec.queue)
        if reasons is not None:
            draft.orders.append(ReleaseClaim(job_id=job_id))
            draft.hold_jobs([record], reasons)
            released.add(job_id)
    return released
