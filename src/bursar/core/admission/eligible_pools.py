"""Pools that could run a job, with prices, and what an hour of the job can cost at least and at most."""

from __future__ import annotations

from typing import NamedTuple

from bursar.core.placement.pool_fit import PoolFit, ShapePlan, shape_of
from bursar.core.quota.charge import hourly_micro_usd
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec
from bursar.model.units import HOUR_MS


class EligiblePool(NamedTuple):
    """A pool that could run the job, or its spot tasks with anchors in one of ``anchors``."""

    pool: str
    market: Market
    model: str
    micro_usd_per_hour: int
    anchors: tuple[str, ...] = ()


def unshared_plan(spec: JobSpec, state: FleetState) -> ShapePlan:
    """Matches the job to pools in a plan of its own; the state and its plans are not changed."""
    plan = ShapePlan(-1, shape_of(spec), state.policies.backfill.unknown_run_time_ms)
    plan.match(tuple(state.pools.values()), state.limited)
    return plan


def eligible_pools(spec: JobSpec, state: FleetState) -> tuple[EligiblePool, ...]:
    """Every pool whose shape fits, by name."""
    by_pool: dict[str, list[PoolFit]] = {}
    for fit in unshared_plan(spec, state).fits:
        by_pool.setdefault(fit.pool.spec.name, []).append(fit)
    return tuple(_eligible_pool(fits) for _, fits in sorted(by_pool.items()))


def _eligible_pool(fits: list[PoolFit]) -> EligiblePool:
    """An eligible pool at its lowest price with any pool for its anchors."""
    pool = fits[0].pool.spec
    return EligiblePool(
        pool=pool.name,
        market=pool.market,
        model=pool.gpu_model.name if pool.gpu_model is not None else "",
        micro_usd_per_hour=min(fit.hourly_micro_usd for fit in fits),
        anchors=tuple(sorted(fit.anchors.name for fit in fits if fit.anchors is not None)),
    )


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
