"""Pools that could run a job, with their prices."""

from __future__ import annotations

from typing import NamedTuple

from bursar.core.placement.pool_fit import PoolFit, ShapePlan, shape_of
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec


class EligiblePool(NamedTuple):
    """A pool that could run the job, or its spot tasks with anchors in one of ``anchors``."""

    pool: str
    market: Market
    model: str
    micro_usd_per_hour: int
    anchors: tuple[str, ...] = ()


def options_of(spec: JobSpec, state: FleetState) -> tuple[EligiblePool, ...]:
    """Every pool whose shape fits, by name. Uses its own plan, so the state is not changed."""
    plan = ShapePlan(-1, shape_of(spec), state.policies.backfill.unknown_run_time_ms)
    plan.match(tuple(state.pools.values()), state.limited)
    by_pool: dict[str, list[PoolFit]] = {}
    for fit in plan.fits:
        by_pool.setdefault(fit.pool.spec.name, []).append(fit)
    return tuple(_option(fits) for _, fits in sorted(by_pool.items()))


def _option(fits: list[PoolFit]) -> EligiblePool:
    """An eligible pool at its lowest price with any pool for its anchors."""
    pool = fits[0].pool.spec
    return EligiblePool(
        pool=pool.name,
        market=pool.market,
        model=pool.gpu_model.name if pool.gpu_model is not None else "",
        micro_usd_per_hour=min(fit.hourly_micro_usd for fit in fits),
        anchors=tuple(sorted(fit.anchors.name for fit in fits if fit.anchors is not None)),
    )
