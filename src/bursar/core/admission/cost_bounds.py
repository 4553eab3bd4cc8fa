"""The least an hour of a job can cost, and the most, before it is placed."""

from __future__ import annotations

from bursar.core.placement.pool_fit import ShapePlan
from bursar.core.quota.charge import hourly_micro_usd
from bursar.core.state.fleet_state import FleetState
from bursar.model.jobs.job import JobSpec
from bursar.model.units import HOUR_MS


def cheapest_micro_usd_per_hour(plan: ShapePlan) -> int | None:
    """The lowest price of all pools that could run the shape when empty; None if there is none."""
    return min((fit.hourly_micro_usd for fit in plan.fits), default=None)


def dearest_hourly_micro_usd(spec: JobSpec, state: FleetState) -> int:
    """An hour of the job on the dearest pool that could run it, at current prices.

    Each task is priced alone and rounded up: tasks that share a node never cost more.
    """
    return max(
        (
            sum(
                group.count
                * (hourly_micro_usd(fit.pool.spec, milli, group.cpu_milli, group.memory_mib) + 1)
                for group, milli in zip(fit.plan.groups, fit.gpu_milli_per_task, strict=True)
            )
            for fit in state.backlogs.plan_of(spec).fits
        ),
        default=0,
    )


def cost_of_ms(hourly: int, duration_ms: int) -> int:
    """The cost of a duration at an hourly price, rounded up."""
    return -(-hourly * duration_ms // HOUR_MS)
