"""Where a budget is spent nothing starts, and who must stop is told to; nobody else is.

The strictest action of all budgets at or above a queue is found anew, from the levels in the log.
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
    """What starts or goes on though a budget forbids it."""
    if not state.budgets.levels:
        return
    for job_id, _ in listing.promised:
        record = state.jobs.get(job_id)
        if record is not None:
            action = strictest_action(state, record.spec.queue)
            if action in (_BLOCK_NEW, _STOP_PREEMPTIBLE, _STOP_ALL):
                queue = record.spec.queue
                text = f"{job_id} gets a place, but the budget of {queue} says {action}"
                yield Fault("starts-over-budget", job_id, text)
    told = listing.told
    for queue, records in sorted(state.running_in.items()):
        action = strictest_action(state, queue)
        for job_id, record in sorted(records.items()):
            if job_id not in told and not record.stop_requested and is_to_stop(record, action):
                text = f"{job_id} is not stopped, but the budget of {queue} says {action}"
                yield Fault("runs-over-budget", job_id, text)


_BLOCK_NEW = BudgetAction.BLOCK_NEW
_STOP_PREEMPTIBLE = BudgetAction.STOP_PREEMPTIBLE
_STOP_ALL = BudgetAction.STOP_ALL
_GRADUATED = tuple(BudgetAction)


def strictest_action(state: FleetState, queue: str) -> BudgetAction:
    """Of all that the budgets at or above a queue demand at their levels."""
    found = [BudgetAction.NOTIFY]
    at: str | None = queue
    while at is not None:
        tenant, level = state.tenants[at], state.budgets.levels.get(at)
        if tenant.budget is not None and level is not None:
            found += [
                step.action
                for step in tenant.budget.effective_steps
                if step.at_percent <= level.level
            ]
        at = tenant.parent
    return max(found, key=_GRADUATED.index)


def is_to_stop(record: JobRecord, action: BudgetAction) -> bool:
    """Whether an action wants a live attempt stopped."""
    if record.state not in (JobState.STARTING, JobState.RUNNING):
        return False
    return action is _STOP_ALL or (action is _STOP_PREEMPTIBLE and record.spec.preemptible)
