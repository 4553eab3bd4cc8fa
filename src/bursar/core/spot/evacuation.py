"""Stops attempts on nodes that the provider will reclaim.

A node with a rebalance recommendation is avoided: it is used only when no other node has capacity.
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
    """Order every attempt on a node with a termination notice to save its work and stop."""
    state, now_ms = draft.state, draft.now_ms
    already_stopped = {order.job_id for order in draft.orders if isinstance(order, StopJob)}
    for job_id, notice in attempts_to_evacuate(state).items():
        if job_id in already_stopped:
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
    """Open the avoided nodes of a shape's pools within the block; yields whether there are any.

    Starts on them remain; afterwards the nodes are avoided again.
    """
    state, journal = draft.state, draft.journal
    pools = {fit.pool.spec.name for fit in plan.fits}
    opened = [
        (state.pool_of_node[node], state.node(node))
        for node, notice in sorted(state.notices.items())
        if notice.kind is NoticeKind.REBALANCE and state.pool_of_node[node].spec.name in pools
    ]
    no_capacity, blocked = draft.no_capacity, [(fit, fit.blocked_at) for fit in plan.fits]
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
        draft.no_capacity = no_capacity
        for fit, blocked_at in blocked:
            fit.blocked_at = blocked_at
