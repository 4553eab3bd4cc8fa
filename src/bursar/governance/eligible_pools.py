"""Where a job could run on this fleet as it stands, and at what price: what the rules look at."""

from __future__ import annotations

from typing import NamedTuple

from bursar.core.placement.pool_fit import PoolFit, ShapePlan, shape_of
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec


class EligiblePool(NamedTuple):
    """A pool that could run the whole job, or its tasks on spot with anchors in one of ``anchors``."""

    pool: str
    market: Market
    model: str
    micro_usd_per_hour: int
    anchors: tuple[str, ...] = ()


def options_of(spec: JobSpec, state: FleetState) -> tuple[EligiblePool, ...]:
    """Every pool whose shape fits, by name. A plan of our own: looking leaves no trace in the state."""
    plan = ShapePlan(-1, shape_of(spec), state.policies.backfill.unknown_run_time_ms)
    plan.match(tuple(state.pools.values()), state.limited)
    by_pool: dict[str, list[PoolFit]] = {}
    for fit in plan.fits:
        by_pool.setdefault(fit.pool.spec.name, []).append(fit)
    return tuple(_option(fits) for _, fits in sorted(by_pool.items()))


def _option(fits: list[PoolFit]) -> EligiblePool:
    """At the lowest price that it has with any steady pool beside it."""
    pool = fits[0].pool.spec
    return EligiblePool(
        pool=pool.name,
        market=pool.market,
        model=pool.gpu_model.name if pool.gpu_model is not None else "",
        micro_usd_per_hour=min(fit.hourly_micro_usd for fit in fits),
        anchors=tuple(sorted(fit.anchors.name for fit in fits if fit.anchors is not None)),
    )
