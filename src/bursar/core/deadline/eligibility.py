"""Which jobs are deadline-managed: those that may run both on spot and elsewhere."""

from __future__ import annotations

from bursar.core.quota.charge import run_time_of
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import FlavorChoice, JobSpec


def is_deadline_managed(spec: JobSpec) -> bool:
    """Whether a job has a deadline and a run time, and may run on spot and elsewhere.

    A job that lists other markets before spot in its own order is not managed.
    """
    if spec.deadline_ms is None and spec.slo is None:
        return False
    constraints = spec.constraints
    markets = constraints.markets
    if Market.SPOT not in markets or len(markets) < 2 or run_time_of(spec) is None:
        return False
    return constraints.choose_by is FlavorChoice.COST or markets[0] is Market.SPOT


def work_of(spec: JobSpec) -> int:
    """The work of a deadline-managed job: the expected run time, else the limit."""
    return spec.expected_run_ms or run_time_of(spec) or 0
