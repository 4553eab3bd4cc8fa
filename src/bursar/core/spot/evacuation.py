"""What a cycle does about notices: those on a node that is taken away leave it, in time.

A node that may be taken away is avoided: it gets something only when there is room nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bursar.core.draft import Draft
from bursar.core.placement.pool_fit import ShapePlan
from bursar.core.preemption.victim_cost import work_lost
from bursar.core.state.notices import attempts_to_evacuate, time_left_ms
from bursar.model.decision import EvacuateJob, StopJob
from bursar.model.event import NoticeKind


def evacuate(draft: Draft) -> None:
    """Tell every attempt on a node that is taken away to save its work and leave."""
    state, now_ms = draft.state, draft.now_ms
    over = {order.job_id for order in draft.orders if isinstance(order, StopJob)}
    for job_id, notice in attempts_to_evacuate(state).items():
        if job_id in over:
            continue
        record = state.jobs[job_id]
        draft.orders.append(
            EvacuateJob(
                job_id=job_id,
                attempt=record.attempt,
                node=notice.node,
                grace_ms=time_left_ms(notice, now_ms),
                lost_micro_usd=work_lost(record, now_ms),
            )
        )
        draft.victims.add(job_id)


@contextmanager
def allow_avoided_nodes(draft: Draft, plan: ShapePlan) -> Iterator[bool]:
    """Within the block avoided nodes of the pools that suit a shape are like others.

    Gives whether there are any. What is started there stays; nodes are avoided again afterwards.
    """
    state, journal = draft.state, draft.journal
    pools = {fit.pool.spec.name for fit in plan.fits}
    opened = [
        (state.pool_of_node[node], state.node(node))
        for node, notice in sorted(state.notices.items())
        if notice.kind is NoticeKind.REBALANCE and state.pool_of_node[node].spec.name in pools
    ]
    known, blocked = draft.no_capacity, [(fit, fit.blocked_at) for fit in plan.fits]
    for pool, node in opened:
        pool.set_avoided(node, False)
        journal.on_undo(pool.set_avoided, node, True)
    draft.no_capacity = {}
    try:
        yield bool(opened)
    finally:
        for pool, node in opened:
            pool.set_avoided(node, True)
            journal.on_undo(pool.set_avoided, node, False)
        draft.no_capacity = known
        for fit, at in blocked:
            fit.blocked_at = at
