"""Budgets in a simulated run: thresholds are reached and take effect at the right time."""

from __future__ import annotations

from dataclasses import replace

from bursar.accounting.ledger.entry import QUEUE_KINDS
from bursar.core.check import require_valid
from bursar.model.event import (
    AttemptAssigned,
    AttemptStopping,
    BudgetLevelChanged,
    Event,
    FleetDeclared,
    JobSubmitted,
)
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Budget, BudgetAction, BudgetPeriod, BudgetStep, Tenant
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, USD_MICRO
from bursar.simulate.scenario import Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, job, pool, queue, tenant
from tests.support.book_views import by_day, replay

OWNED = "a100-80gb/owned"


def steps(**percents: int) -> tuple[BudgetStep, ...]:
    """``block_new=50``: from 50 percent on no job starts."""
    return tuple(
        BudgetStep(at_percent=percent, action=BudgetAction(name.replace("_", "-")))
        for name, percent in percents.items()
    )


def budgeted(usd: int, **percents: int) -> tuple[Tenant, ...]:
    """Research and product have four GPUs each and may borrow; research has a budget for each day."""
    budget = Budget(
        amount_micro_usd=usd * USD_MICRO, period=BudgetPeriod.DAY, steps=steps(**percents)
    )
    research = replace(queue("research", "acme", {OWNED: 4}), budget=budget)
    return tenant("acme"), research, queue("product", "acme", {OWNED: 4})


def run(tenants: tuple[Tenant, ...], *specs: tuple[int, JobSpec]) -> list[Event]:
    """All events of a run on one node of eight GPUs at $16 an hour; every decision is checked."""
    events = [
        JobSubmitted(at_ms=at_ms, job_id=spec.name, spec=spec, priority=0) for at_ms, spec in specs
    ]
    scenario = Scenario(fleet=fleet_of(pool("a100")), tenants=tenants, events=events)
    simulation = Simulation(scenario, check=require_valid)
    return [one for step in simulation.steps() for one in (*step.events, *step.committed)]


def levels(log: list[Event]) -> list[tuple[int, int]]:
    return [(one.at_ms, one.level) for one in log if isinstance(one, BudgetLevelChanged)]


def starts(log: list[Event], job_id: str) -> list[int]:
    return [one.at_ms for one in log if isinstance(one, AttemptAssigned) and one.job_id == job_id]


def hours(name: str, gpus: int, run_hours: int) -> JobSpec:
    """A job with checkpoints, which can continue in a later period."""
    saved = CheckpointPolicy(interval_ms=10 * MINUTE_MS)
    return replace(job(name, gpus=gpus, queue="research", hours=run_hours), checkpoint=saved)


def test_a_threshold_is_reached_within_a_second() -> None:
    log = run(budgeted(16, notify=50), (0, hours("a", 4, 3)))
    at_ms, level = levels(log)[0]
    assert level == 50
    assert HOUR_MS <= at_ms <= HOUR_MS + SECOND_MS, "half of $16 is an hour of four GPUs"


def test_a_blocked_job_starts_when_the_next_day_begins() -> None:
    log = run(budgeted(16, block_new=50), (0, hours("a", 4, 2)), (90 * MINUTE_MS, hours("b", 1, 1)))
    assert starts(log, "b") == [DAY_MS]
    assert [level for _, level in levels(log)] == [50, 0]


def test_no_job_borrows_quota_once_borrowing_is_blocked() -> None:
    log = run(
        budgeted(16, block_borrowing=50),
        (0, hours("a", 4, 1)),
        (HOUR_MS + MINUTE_MS, hours("large", 8, 1)),
        (HOUR_MS + 2 * MINUTE_MS, hours("small", 4, 1)),
    )
    assert starts(log, "large") == [DAY_MS], "eight GPUs are four of others"
    assert starts(log, "small") == [HOUR_MS + 2 * MINUTE_MS]


def test_preemptible_jobs_are_stopped_and_continue_in_the_next_period() -> None:
    fixed = replace(hours("fixed", 1, 4), preemptible=False)
    log = run(budgeted(16, stop_preemptible=50), (0, hours("a", 4, 3)), (0, fixed))
    stopped = {one.job_id for one in log if isinstance(one, AttemptStopping)}
    assert stopped == {"a"}
    assert len(starts(log, "fixed")) == 1
    assert starts(log, "a")[1] == DAY_MS


def test_stop_all_stops_everything() -> None:
    fixed = replace(hours("fixed", 1, 4), preemptible=False)
    log = run(budgeted(16, stop_all=50), (0, hours("a", 4, 3)), (0, fixed))
    stopped = [one for one in log if isinstance(one, AttemptStopping)]
    assert {one.job_id for one in stopped} == {"a", "fixed"}
    assert {one.why for one in stopped} == {"budget"}
    assert starts(log, "fixed")[1] == DAY_MS


def test_the_levels_match_the_ledger() -> None:
    tenants = budgeted(16, notify=25, block_borrowing=50, block_new=75)
    jobs = [(number * 10 * MINUTE_MS, hours(f"j{number}", 1, 1)) for number in range(40)]
    log = run(tenants, *jobs)
    declared = FleetDeclared(
        at_ms=0, fleet=fleet_of(pool("a100")), tenants=tenants, policies=Policies()
    )
    found = [one for one in log if isinstance(one, BudgetLevelChanged)]
    assert [one.level for one in found][:3] == [25, 50, 75]
    for one in found:
        before = [event for event in log if event.at_ms <= one.at_ms]
        books = replay([declared, *before], one.at_ms)
        spent = by_day(books, QUEUE_KINDS).get(one.period_start_ms, 0)
        assert abs(spent - one.spent_micro_usd) <= 8, "a micro-dollar for each that runs"


def test_a_job_that_can_never_start_does_not_keep_the_clock_running() -> None:
    log = run(budgeted(16, block_new=50), (0, hours("a", 4, 2)), (0, hours("never", 800, 1)))
    assert max(one.at_ms for one in log) <= 2 * DAY_MS
