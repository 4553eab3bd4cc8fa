"""A spent budget blocks starts and stops running jobs.

The strictest action of all budgets at or above a queue is recomputed from the levels in the event log.
"""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.check.decisions_by_type import DecisionsByType
from bursar.core.check.fault import Fault
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.jobs.job import JobState
from bursar.model.tenants.tenant import BudgetAction


def budget_faults(state: FleetState, listing: DecisionsByType) -> Iterator[Fault]:
    """Jobs that start or continue although a budget forbids it."""
    if not state.budgets.levels:
        return
    for job_id, _ in listing.new_placements:
        record = state.jobs.get(job_id)
        if record is not None:
            action = strictest_action(state, record.spec.queue)
            if action in (_BLOCK_NEW, _STOP_PREEMPTIBLE, _STOP_ALL):
                queue = record.spec.queue
                text = f"{job_id} starts or claims a placement, but the budget of {queue} requires {action}"
                yield Fault("starts-over-budget", job_id, text)
    stopped = listing.stopped_jobs
    for queue, records in sorted(state.running_in.items()):
        action = strictest_action(state, queue)
        for job_id, record in sorted(records.items()):
            if job_id not in stopped and not record.stop_requested and must_stop(record, action):
                text = f"{job_id} is not stopped, but the budget of {queue} requires {action}"
                yield Fault("runs-over-budget", job_id, text)


_BLOCK_NEW = BudgetAction.BLOCK_NEW
_STOP_PREEMPTIBLE = BudgetAction.STOP_PREEMPTIBLE
_STOP_ALL = BudgetAction.STOP_ALL
_BY_STRICTNESS = tuple(BudgetAction)


def strictest_action(state: FleetState, queue: str) -> BudgetAction:
    """Strictest action of the budgets at or above a queue, at their current levels."""
    actions = [BudgetAction.NOTIFY]
    name: str | None = queue
    while name is not None:
        tenant, level = state.tenants[name], state.budgets.levels.get(name)
        if tenant.budget is not None and level is not None:
            actions += [
                step.action
                for step in tenant.budget.effective_steps
                if step.at_percent <= level.level
            ]
        name = tenant.parent
    return max(actions, key=_BY_STRICTNESS.index)


def must_stop(record: JobRecord, action: BudgetAction) -> bool:
    """Whether an action requires a job's live attempt to stop."""
    if record.state not in (JobState.STARTING, JobState.RUNNING):
        return False
    return action is _STOP_ALL or (action is _STOP_PREEMPTIBLE and record.spec.preemptible)
