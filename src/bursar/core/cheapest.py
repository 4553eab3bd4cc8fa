"""What an hour of a waiting job would cost, where it would cost least."""

from __future__ import annotations

from bursar.core.shape import ShapePlan, plan_micro_usd_per_hour


def cheapest_micro_usd_per_hour(plan: ShapePlan) -> int | None:
    """The lowest price of all pools that could run the shape when empty; None when none could."""
    prices = [plan_micro_usd_per_hour(plan, fit.pool.spec) for fit in plan.fits]
    return min(prices) if prices else None
