"""One scheduling cycle: every waiting job gets exactly one decision.

``decide`` is a pure function for its callers: it works on the live state and undoes every change.
"""

from __future__ import annotations

from bursar.core.draft import Draft, Reservation, hold_for
from bursar.core.hold_reasons import with_plan
from bursar.core.ordering.turn import Turns
from bursar.core.ordering.urgency import levels_of
from bursar.core.preemption.claims import serve_claims
from bursar.core.preemption.preempt import fits_quota_when_idle, preempt_for
from bursar.core.quota.charge import run_time_of
from bursar.core.reservation.plan_start import add_reservation, plan_start
from bursar.core.spot.deadline_moves import move_deadline_jobs
from bursar.core.spot.evacuation import allow_avoided_nodes, evacuate
from bursar.core.spot.pool_choice import choose_pools
from bursar.core.start_job import start_on_first_pool
from bursar.core.state.attempt_limits import stop_at_limit
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.core.state.notices import attempts_to_evacuate
from bursar.model.decision import Decision, EvacuateJob, Hold, StopJob, StopReason
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import AT_WORK
from bursar.model.reason import NeverFits, Reason, WaitsForJobs
from bursar.model.tenants.tenant import BudgetAction


def decide(state: FleetState, now_ms: int) -> tuple[Decision, ...]:
    """Decide for every waiting job: start it, or hold its kind with reasons."""
    if is_idle(state, now_ms):
        return ()
    draft = Draft(state, now_ms)
    try:
        if state.to_stop or state.limits:
            stop_cancelled_and_expired(draft)
        if state.notices:
            evacuate(draft)
        if state.budgets.stops:
            stop_over_budget(draft)
        if state.blocked:
            hold_dependents(draft)
        if state.claims:
            serve_claims(draft)
        if state.backlogs.deadline_jobs:
            move_deadline_jobs(draft)
        schedule_waiting(draft)
        return draft.decisions()
    finally:
        draft.journal.roll_back()


def is_idle(state: FleetState, now_ms: int) -> bool:
    """Whether no job waits, must be stopped or has reached a limit."""
    if (
        state.active
        or state.claims
        or state.blocked
        or state.to_stop
        or state.backlogs.deadline_jobs
    ):
        return False
    if state.notices and attempts_to_evacuate(state):
        return False
    if state.budgets.stops and attempts_over_budget(state):
        return False
    return not state.limits or state.limits[0][0] > now_ms


def stop_cancelled_and_expired(draft: Draft) -> None:
    """Stop cancelled attempts and those at their maximum run time or cost."""
    for job_id, record in sorted(draft.state.to_stop.items()):
        draft.orders.append(
            StopJob(job_id=job_id, attempt=record.attempt, reason=StopReason.CANCELLED)
        )
        draft.stopped.add(job_id)
    for limit_ms, job_id in draft.state.limits:
        if limit_ms > draft.now_ms:
            break
        record = draft.state.jobs[job_id]
        if record.state is JobState.RUNNING:
            draft.orders.append(stop_at_limit(record, draft.now_ms))
            draft.stopped.add(job_id)


def attempts_over_budget(state: FleetState) -> list[JobRecord]:
    """Live attempts that a spent budget stops and that are not stopping yet; their jobs will wait again."""
    return [
        record
        for queue, action in sorted(state.budgets.stops.items())
        for _, record in sorted(state.running_in.get(queue, {}).items())
        if record.state in AT_WORK
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


def hold_dependents(draft: Draft) -> None:
    """Hold the jobs that depend on other jobs.

    The holds are cached until a dependency or a dependent job changes.
    """
    if draft.state.dependent_holds is None:
        draft.state.dependent_holds = dependency_holds(draft.state)
    draft.holds += draft.state.dependent_holds


def dependency_holds(state: FleetState) -> tuple[Hold, ...]:
    """One hold for all jobs of a kind that wait for the same jobs."""
    groups: dict[tuple[int, frozenset[str]], list[JobRecord]] = {}
    for record in state.blocked.values():
        groups.setdefault((id(record.backlog), record.unmet), []).append(record)
    holds: list[Hold] = []
    for (_, unmet), records in groups.items():
        failed = tuple(sorted(job for job in unmet if job in state.finished))
        reason = WaitsForJobs(jobs=tuple(sorted(unmet)), failed=failed)
        holds.append(hold_for(records, (reason,)))
    return tuple(holds)


def schedule_waiting(draft: Draft) -> None:
    """Start every job that can start, in order, and hold the others."""
    turns = Turns(draft, levels_of(draft), {**draft.state.budgets.holds})
    is_only_backlog = len(draft.state.active) == 1
    for backlog, head in turns:
        if is_only_backlog:
            draft.is_last = draft.waiting(backlog) == 1
        reasons = schedule_head(draft, backlog, head)
        if reasons:
            turns.hold(reasons)
        elif draft.is_last:
            return
        else:
            turns.start()


def schedule_head(draft: Draft, backlog: Backlog, head: JobRecord) -> tuple[Reason, ...]:
    """Start the head of a backlog, preempt for it or reserve nodes; returns the hold reasons."""
    plan = backlog.plan
    if not plan.fits:
        return (NeverFits(problem=plan.problem),)
    tiers, fits = plan.tiers, plan.fits
    if plan.needs_pool_choice:
        choice = choose_pools(draft, head)
        if choice.wait_reason is not None:
            return (choice.wait_reason,)
        tiers, fits = choice.tiers, choice.fits
    reasons = start_on_first_pool(draft, head, tiers)
    if reasons is None:
        return ()
    if draft.state.notices:
        with allow_avoided_nodes(draft, plan) as has_avoided_nodes:
            if has_avoided_nodes and start_on_first_pool(draft, head, tiers) is None:
                return ()
    limits = draft.state.policies.preemption
    for fit in fits:
        if draft.victim_searches >= limits.searches_per_cycle:
            break
        if preempt_for(draft, head, fit, fit.min_counts):
            return ()
    planned = reserve(draft, head)
    if planned is None:
        return tuple(reasons)
    return tuple(with_plan(reason, planned) for reason in reasons)


def reserve(draft: Draft, head: JobRecord) -> Reservation | None:
    """Reserve nodes for a blocked job while the policy has reservations left."""
    backfill = draft.state.policies.backfill
    if len(draft.planned) >= backfill.reservations:
        return None
    if run_time_of(head.spec) is None:
        if draft.now_ms - head.submitted_at_ms < backfill.reserve_unknown_after_ms:
            return None
    plans = [
        planned
        for fit in head.backlog.plan.fits
        if fits_quota_when_idle(draft.state.quota, head.spec.queue, fit.request(fit.min_counts))
        and (planned := plan_start(draft, head, fit)) is not None
    ]
    if not plans:
        return None
    best = min(plans, key=lambda planned: (planned.at_ms, planned.pool, planned.anchor_nodes))
    add_reservation(draft, best)
    return best
