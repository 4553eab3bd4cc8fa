"""The reasons of a hold, with the current numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bursar.core.draft import Draft, Reservation
from bursar.core.placement.pool_fit import Counts, PoolFit
from bursar.core.placement.search import Search
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.reason import NoCapacity, OverQuota, Reason, WouldDelay
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import MILLI


def over_quota(state: FleetState, queue: str, request: Mapping[FlavorResource, int]) -> OverQuota:
    """The first resource that the queue lacks quota for, and the tenant that limits it."""
    for fr, wanted in request.items():
        available, limited_by = state.quota.limit(queue, fr)
        if available < wanted:
            level = state.budgets.no_borrowing.get(limited_by)
            return OverQuota(
                queue=queue,
                flavor=fr[0],
                resource=fr[1],
                wanted=wanted,
                available=available,
                used=state.quota.usage(queue, fr),
                limited_by=limited_by,
                budget_level=level.level if level is not None else 0,
            )
    raise AssertionError("the request fits in the quota")


def no_capacity(fit: PoolFit, counts: Counts, search: Search) -> NoCapacity:
    """What a pool has free, compared with the request."""
    if fit.anchors is not None:
        parts = fit.parts(counts)
        fit, counts = parts[1] if search.lacks_anchors else parts[0]
    pool = fit.pool
    tasks, per_task = max(zip(counts, fit.gpu_milli_per_task, strict=True), key=lambda one: one[1])
    return NoCapacity(
        pool=pool.spec.name,
        tasks_wanted=tasks,
        tasks_that_fit=min(search.tasks_that_fit, tasks),
        gpus_wanted_per_task_milli=per_task,
        gpus_free_milli=pool.free_gpus() * MILLI,
        gpus_free_on_best_node=pool.most_free_gpus(),
    )


def would_delay(draft: Draft, head: JobRecord, planned: Reservation) -> WouldDelay:
    """The planned start that a start now would delay, and by how much."""
    return WouldDelay(
        job_id=planned.job_id,
        planned_start_ms=planned.at_ms,
        wait_ms=max(0, planned.at_ms - draft.now_ms),
        run_ms=head.run_ms,
    )


def with_plan(reason: Reason, planned: Reservation) -> Reason:
    """A reason with the expected start of a reservation."""
    if isinstance(reason, NoCapacity) and reason.pool in (planned.pool, planned.anchor_nodes[0]):
        return replace(reason, expected_at_ms=planned.at_ms)
    if isinstance(reason, OverQuota) and planned.slack.keys() & {(reason.flavor, reason.resource)}:
        return replace(reason, expected_at_ms=planned.at_ms)
    return reason
