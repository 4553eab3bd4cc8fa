"""Rules for jobs with a deadline: run on spot, run on demand, or wait. See README.md."""

from bursar.core.deadline.availability import AvailabilityEstimate, AvailabilityTracker
from bursar.core.deadline.expected_cost import expected_cost
from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    Policy,
    SpotMarket,
    SpotOffer,
)
from bursar.core.deadline.published_rules import greedy, on_demand_only, uniform_progress

POLICIES: dict[str, Policy] = {
    "on-demand": on_demand_only,
    "greedy": greedy,
    "uniform-progress": uniform_progress,
    "expected-cost": expected_cost,
}
"""By name, ours last."""

__all__ = [
    "ON_DEMAND",
    "POLICIES",
    "WAIT",
    "AvailabilityEstimate",
    "AvailabilityTracker",
    "DeadlineProgress",
    "DeadlineTerms",
    "Location",
    "Policy",
    "SpotMarket",
    "SpotOffer",
    "expected_cost",
    "greedy",
    "on_demand_only",
    "uniform_progress",
]
