"""The reasons of a hold, with the numbers that were true when it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bursar.core.draft import Draft
from bursar.core.line import JobRecord
from bursar.core.reserve import PlannedStart
from bursar.core.search import Search
from bursar.core.shape import Counts, PoolFit
from bursar.core.state import FleetState
from bursar.model.reason import NoRoom, OverQuota, Reason, WouldDelay
from bursar.model.tenant import FlavorResource
from bursar.model.units import MILLI


def over_quota(state: FleetState, queue: str, request: Mapping[FlavorResource, int]) -> OverQuota:
    """The first resource of which the queue may not have enough now, and who limits it."""
    quota = state.quota
    for fr, wanted in request.items():
        available = quota.available(queue, fr)
        if available < wanted:
            return OverQuota(
                queue=queue,
                flavor=fr[0],
                resource=fr[1],
                wanted=wanted,
                available=available,
                used=quota.usage(queue, fr),
                limited_by=limiting_tenant(state, queue, fr),
            )
    raise AssertionError("asked why a request that fits is over quota")


def limiting_tenant(state: FleetState, queue: str, fr: FlavorResource) -> str:
    """The lowest tenant on the way up that has nothing more to give than the queue may get."""
    available = state.quota.available(queue, fr)
    found = queue
    for tenant in state.quota.ancestors(queue):
        if state.quota.available(tenant, fr) > available:
            break
        found = tenant
    return found


def no_room(fit: PoolFit, counts: Counts, search: Search) -> NoRoom:
    """What a pool has free, against what was asked of it."""
    pool = fit.pool
    tasks, per_task = max(zip(counts, fit.gpu_milli_per_task, strict=True), key=lambda one: one[1])
    return NoRoom(
        pool=pool.spec.name,
        tasks_wanted=tasks,
        tasks_that_fit=min(search.tasks_that_fit, tasks),
        gpus_wanted_per_task_milli=per_task,
        gpus_free_milli=pool.free_gpus() * MILLI,
        gpus_free_on_best_node=pool.most_free_gpus(),
    )


def would_delay(draft: Draft, head: JobRecord, fit: PoolFit) -> WouldDelay:
    """Whom a start would push back: the job planned first in this pool."""
    planned = draft.planned[fit.pool.spec.name]
    at_ms, job_id = min(planned)
    return WouldDelay(
        job_id=job_id,
        planned_start_ms=at_ms,
        wait_ms=max(0, at_ms - draft.now_ms),
        run_ms=head.line.plan.run_ms,
    )


def with_plan(reason: Reason, planned: PlannedStart | None) -> Reason:
    """A reason with the expected start that was planned for it."""
    if planned is None or not isinstance(reason, NoRoom) or reason.pool != planned.pool:
        return reason
    return replace(reason, expected_at_ms=planned.at_ms)
