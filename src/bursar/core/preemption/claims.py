"""Starts claimants whose victims have stopped, and reserves quota for the others.

A claim reserves a placement for a job until its victims have stopped: ``FleetState.placement_claimed`` closes
its nodes to other jobs. Claims are served before other jobs.
"""

from __future__ import annotations

from bursar.core.draft import Draft
from bursar.core.hold_reasons import over_quota
from bursar.core.placement.find_placement import find_placement
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ReleaseClaim
from bursar.model.lifecycle import fence
from bursar.model.reason import ClaimLost, Reason, WaitsForVictims
from bursar.model.state_snapshot import Claim


def serve_claims(draft: Draft) -> None:
    """Start claimants whose victims have stopped; reserve the quota of the others."""
    waiting: list[tuple[JobRecord, tuple[str, ...]]] = []
    held = _release_unaffordable_claims(draft) if draft.state.budgets.holds else set()
    for job_id, record in sorted(draft.state.claims.items()):
        if job_id in held:
            continue
        assert record.claim is not None
        victims = remaining_victims(draft.state, record.claim)
        if victims:
            _reserve_quota(draft, record, victims)
            waiting.append((record, victims))
    for record, victims in waiting:
        draft.hold_jobs([record], (WaitsForVictims(victims=victims),))
    held |= {record.id for record, _ in waiting}
    for job_id, record in sorted(draft.state.claims.items()):
        if job_id not in held:
            _start(draft, record)


def _release_unaffordable_claims(draft: Draft) -> set[str]:
    """Release the claims of jobs whose budget blocks new starts; returns their ids."""
    released: set[str] = set()
    for job_id, record in sorted(draft.state.claims.items()):
        reasons = draft.state.budgets.holds.get(record.spec.queue)
        if reasons is not None:
            draft.orders.append(ReleaseClaim(job_id=job_id))
            draft.hold_jobs([record], reasons)
            released.add(job_id)
    return released


def remaining_victims(state: FleetState, claim: Claim) -> tuple[str, ...]:
    """The victims of a claim that have not stopped yet."""
    return tuple(
        victim
        for victim, attempt in sorted(claim.attempts.items())
        if fence(state.jobs.get(victim), attempt) is not None
    )


def _reserve_quota(draft: Draft, record: JobRecord, victims: tuple[str, ...]) -> None:
    state = draft.state
    assert record.claim is not None
    draft.victims.update(victims)
    request = state.charges.of(record.claim.placement).request
    draft.charge_claim(record, request, [state.jobs[victim] for victim in victims])


def _start(draft: Draft, record: JobRecord) -> None:
    """Start a claimant on its claimed pool or another, or release its claim with reasons."""
    assert record.claim is not None
    placement = record.claim.placement
    for part in placement.parts:
        pool = draft.state.pools[part.pool]
        for node_id in sorted({task.node for task in part.tasks}):
            node = pool.by_id.get(node_id)
            if node is not None and node.closed_for == record.id:
                draft.journal.reopen(pool, node)
    reasons: list[Reason] = []
    plan = record.backlog.plan
    for fit in sorted(plan.fits, key=lambda fit: not fit.is_at(placement)):
        request = fit.request(fit.min_counts)
        if not draft.state.quota.fits(record.spec.queue, request):
            reasons.append(over_quota(draft.state, record.spec.queue, request))
            continue
        allocation = find_placement(fit, fit.min_counts, draft.search(record, fit))
        if allocation is not None:
            draft.start(record, fit, allocation)
            return
    draft.orders.append(ReleaseClaim(job_id=record.id))
    draft.hold_jobs([record], tuple(reasons) or (ClaimLost(pool=placement.pool),))
