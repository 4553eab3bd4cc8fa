"""What an hour of a waiting job would cost, where it would cost least."""

from __future__ import annotations

from bursar.core.placement.pool_fit import ShapePlan


def cheapest_micro_usd_per_hour(plan: ShapePlan) -> int | None:
    """The lowest price of all pools that could run the shape when empty; None when none could."""
    return min((fit.hourly_micro_usd for fit in plan.fits), default=None)
