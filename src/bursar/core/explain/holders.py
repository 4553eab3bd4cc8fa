"""Finds what holds the resources a job waits for: queues by quota, jobs by pool."""

from __future__ import annotations

import heapq

from bursar.core.quota.budget_rules import queues_below
from bursar.core.quota.charge import gpu_milli_held
from bursar.core.reservation.expected_ends import EndOdds, expected_end_ms
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.explain.explanation import (
    CapacityHolder,
    CapacityHolding,
    QuotaHolder,
    QuotaHolding,
)
from bursar.model.reason import NoCapacity, OverQuota, Reason

NAMED = 3
"""How many holders are named; the others are counted."""


def find_holders(
    state: FleetState, reasons: tuple[Reason, ...], now_ms: int
) -> tuple[QuotaHolding | CapacityHolding, ...]:
    """The holders for every reason about quota or capacity."""
    holdings: list[QuotaHolding | CapacityHolding] = []
    for reason in reasons:
        if isinstance(reason, OverQuota):
            holdings.append(quota_holding(state, reason))
        elif isinstance(reason, NoCapacity):
            holdings.append(capacity_holding(state, reason.pool, now_ms))
    return tuple(dict.fromkeys(holdings))


def quota_holding(state: FleetState, reason: OverQuota) -> QuotaHolding:
    """The queues that hold most of the flavor below the tenant that limits the job."""
    fr = (reason.flavor, reason.resource)
    quota = state.quota
    holders = []
    for queue in queues_below(state.tenants, reason.limited_by):
        amount = quota.usage(queue, fr)
        if amount > 0:
            borrowed = max(0, amount - quota.subtree_quota(queue, fr))
            holders.append(QuotaHolder(queue=queue, amount=amount, borrowed=borrowed))
    holders.sort(key=lambda one: (-one.amount, one.queue))
    return QuotaHolding(
        flavor=reason.flavor,
        resource=reason.resource,
        limited_by=reason.limited_by,
        holders=tuple(holders[:NAMED]),
        others=len(holders[NAMED:]),
    )


def capacity_holding(state: FleetState, pool_name: str, now_ms: int) -> CapacityHolding:
    """The running jobs with the most GPUs in a pool; ties by planned end."""
    pool = state.pools[pool_name]
    model = pool.spec.gpu_model

    def held(record: JobRecord) -> int:
        part = None if record.placement is None else record.placement.part_in(pool_name)
        assert part is not None
        return sum(gpu_milli_held(task, model) for task in part.tasks)

    sizes = [(-held(state.jobs[job_id]), end_ms, job_id) for end_ms, job_id in pool.ends]
    named = []
    for size, _, job_id in heapq.nsmallest(NAMED, sizes):
        record = state.jobs[job_id]
        named.append(
            CapacityHolder(
                job_id=job_id,
                queue=record.spec.queue,
                gpu_milli=-size,
                expected_end_ms=expected_end_ms(record, EndOdds.EVEN, now_ms),
            )
        )
    return CapacityHolding(
        pool=pool_name, at_ms=now_ms, holders=tuple(named), others=len(sizes) - len(named)
    )
