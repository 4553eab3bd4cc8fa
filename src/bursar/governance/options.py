"""Where a job could run on this fleet as it stands, and at what price: what the rules look at."""

from __future__ import annotations

from typing import NamedTuple

from bursar.core.shape import ShapePlan, plan_micro_usd_per_hour, shape_of
from bursar.core.state import FleetState
from bursar.model.fleet import Market
from bursar.model.job import JobSpec


class Option(NamedTuple):
    """A pool that could run the whole job."""

    pool: str
    market: Market
    model: str
    micro_usd_per_hour: int


def options_of(spec: JobSpec, state: FleetState) -> tuple[Option, ...]:
    """Every pool whose shape fits, by name. A plan of our own: looking leaves no trace in the state."""
    plan = ShapePlan(-1, shape_of(spec), state.policies.backfill.unknown_run_time_ms)
    plan.match(tuple(state.pools.values()), state.limited)
    pools = [fit.pool.spec for fit in plan.fits]
    return tuple(
        Option(
            pool=pool.name,
            market=pool.market,
            model=pool.gpu_model.name if pool.gpu_model is not None else "",
            micro_usd_per_hour=plan_micro_usd_per_hour(plan, pool),
        )
        for pool in sorted(pools, key=lambda pool: pool.name)
    )
