"""Jobs whose place is being cleared: they go first, and nobody slips into what is kept for them."""

from __future__ import annotations

from bursar.core.draft import Draft
from bursar.core.line import JobRecord
from bursar.core.over_budget import give_up_places
from bursar.core.placement import find_room
from bursar.core.why import over_quota
from bursar.model.decision import ReleaseRoom
from bursar.model.lifecycle import LIVE
from bursar.model.reason import PlaceLost, Reason, WaitsForVictims


def serve_claims(draft: Draft) -> None:
    """Start claimants whose victims have left; keep the quota of the others for them."""
    waiting: list[tuple[JobRecord, tuple[str, ...]]] = []
    held = give_up_places(draft) if draft.state.budgets.holds else set()
    for job_id, record in sorted(draft.state.claims.items()):
        if job_id in held:
            continue
        assert record.claim is not None
        left = tuple(
            victim
            for victim, attempt in sorted(record.claim.attempts.items())
            if _still_there(draft, victim, attempt)
        )
        if left:
            _keep_quota(draft, record, left)
            waiting.append((record, left))
    for record, left in waiting:
        draft.hold_jobs([record], (WaitsForVictims(victims=left),))
    held |= {record.id for record, _ in waiting}
    for job_id, record in sorted(draft.state.claims.items()):
        if job_id not in held:
            _start(draft, record)


def _still_there(draft: Draft, victim: str, attempt: int) -> bool:
    """Whether a victim still holds the place it was told to leave."""
    record = draft.state.jobs.get(victim)
    return record is not None and record.state in LIVE and record.attempt == attempt


def _keep_quota(draft: Draft, record: JobRecord, victims: tuple[str, ...]) -> None:
    state = draft.state
    assert record.claim is not None
    draft.victims.update(victims)
    request = state.request_of(record.claim.placement)
    draft.exchange(record, request, [state.jobs[victim] for victim in victims])


def _start(draft: Draft, record: JobRecord) -> None:
    """The place is clear: start there, or give it up and say why."""
    assert record.claim is not None
    placement = record.claim.placement
    for part in placement.parts:
        pool = draft.state.pools[part.pool]
        for node_id in sorted({task.node for task in part.tasks}):
            node = pool.by_id.get(node_id)
            if node is not None and node.closed_for == record.id:
                draft.journal.reopen(pool, node)
    reasons: list[Reason] = []
    plan = record.line.plan
    for fit in sorted(plan.fits, key=lambda fit: not fit.is_at(placement)):
        request = fit.request(fit.min_counts)
        if not draft.state.quota.fits(record.spec.queue, request):
            reasons.append(over_quota(draft.state, record.spec.queue, request))
            continue
        room = find_room(fit, fit.min_counts, draft.search(record, fit))
        if room is not None:
            draft.start(record, fit, room)
            return
    draft.orders.append(ReleaseRoom(job_id=record.id))
    draft.hold_jobs([record], tuple(reasons) or (PlaceLost(pool=placement.pool),))
