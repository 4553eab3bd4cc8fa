"""Which jobs are steered by their deadline: those that could be done on spot, and need not be."""

from __future__ import annotations

from bursar.core.quota.charge import run_time_of
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import FlavorChoice, JobSpec


def is_deadline_managed(spec: JobSpec) -> bool:
    """Whether a job has a deadline, says how long it runs, and may run on spot and elsewhere.

    One that puts other markets before spot, in an order of its own, has said what it wants.
    """
    if spec.deadline_ms is None and spec.slo is None:
        return False
    constraints = spec.constraints
    markets = constraints.markets
    if Market.SPOT not in markets or len(markets) < 2 or run_time_of(spec) is None:
        return False
    return constraints.choose_by is FlavorChoice.COST or markets[0] is Market.SPOT


def work_of(spec: JobSpec) -> int:
    """How much work a steered job has: what its user expects, else the most it may run."""
    return spec.expected_run_ms or run_time_of(spec) or 0
