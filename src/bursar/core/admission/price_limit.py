"""What a job can cost at most, before anybody knows where it will run."""

from __future__ import annotations

from bursar.core.quota.charge import hourly_micro_usd
from bursar.core.state.fleet_state import FleetState
from bursar.model.jobs.job import JobSpec
from bursar.model.units import HOUR_MS


def dearest_hourly_micro_usd(spec: JobSpec, state: FleetState) -> int:
    """An hour of the job on the dearest pool that could run it, at the prices of now.

    Each task for itself and rounded up: together on a node they never cost more.
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
    """Rounded up."""
    return -(-hourly * duration_ms // HOUR_MS)
