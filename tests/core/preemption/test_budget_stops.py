"""Decisions when budgets are exhausted, and the faults that the checker reports otherwise."""

from __future__ import annotations

from dataclasses import replace

from bursar.api.wire.views import hide_spending
from bursar.core.check import check
from bursar.core.cycle import decide
from bursar.core.explain.explain import explain
from bursar.core.explain.queue_listing import list_queue
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.snapshot import from_snapshot, to_snapshot
from bursar.model.decision import Decision, ReleaseClaim, StartJob, StopJob, StopReason
from bursar.model.event import BudgetLevelChanged, FleetDeclared, TenantChanged
from bursar.model.explain.explanation import Basis
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.tenants.policy import Policies, PreemptionLimits
from bursar.model.tenants.tenant import (
    Budget,
    BudgetAction,
    BudgetPeriod,
    BudgetStep,
    Tenant,
)
from bursar.model.units import DAY_MS, HOUR_MS, USD_MICRO
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, tenant
from tests.support.state_audit import require_thoroughly_valid, state_faults

OWNED = "a100-80gb/owned"
STEPS = tuple(
    BudgetStep(at_percent=percent, action=action)
    for percent, action in zip((10, 20, 30, 40, 50), BudgetAction, strict=True)
)
NOTIFY, NO_BORROWING, NO_STARTS, STOP_SOME, STOP_ALL = (step.at_percent for step in STEPS)
BUDGET = Budget(amount_micro_usd=100 * USD_MICRO, period=BudgetPeriod.DAY, steps=STEPS)
POLICIES = Policies(preemption=PreemptionLimits(minimum_run_ms=0))


def tenants(of_team: Budget | None = BUDGET) -> tuple[Tenant, ...]:
    team = replace(tenant("team", "acme"), budget=of_team)
    return (
        tenant("acme"),
        team,
        queue("red", "team", {OWNED: 4}),
        queue("blue", "acme", {OWNED: 4}),
    )


def harness() -> SchedulerHarness:
    """One node with eight GPUs; red belongs to a team with a budget, blue to one without."""
    state = FleetState(fleet_of(pool("a100")), tenants(), POLICIES)
    return SchedulerHarness(state, now_ms=HOUR_MS)


def spend(harness: SchedulerHarness, level: int, tenant_name: str = "team") -> SchedulerHarness:
    return harness.apply(
        BudgetLevelChanged(
            at_ms=harness.now_ms,
            tenant=tenant_name,
            level=level,
            spent_micro_usd=level * USD_MICRO,
            amount_micro_usd=100 * USD_MICRO,
            period_start_ms=0,
        )
    )


def red(name: str, gpus: int, *, preemptible: bool = True) -> JobSpec:
    return replace(job(name, gpus=gpus, queue="red", hours=1), preemptible=preemptible)


def decided(harness: SchedulerHarness) -> tuple[Decision, ...]:
    found = decide(harness.state, harness.now_ms)
    require_thoroughly_valid(harness.state, found, harness.now_ms)
    return found


def test_a_notice_changes_no_decision() -> None:
    here = spend(harness(), NOTIFY)
    here.submit(red("a", 8))
    assert [type(one) for one in decided(here)] == [StartJob]


def test_nothing_is_borrowed_and_the_reason_names_the_budget() -> None:
    here = spend(harness(), NO_BORROWING)
    here.submit(red("large", 8), red("small", 4))
    decided(here)
    here.cycle()
    assert here.started_now() == ["small"]
    hold = here.hold_of("large")
    assert hold is not None
    (reason,) = hold.reasons
    assert "limited by team, which has spent 20 % of its budget and may not borrow" in str(reason)


def test_other_queues_still_borrow() -> None:
    here = spend(harness(), NO_STARTS)
    here.submit(job("b", gpus=8, queue="blue"))
    decided(here)
    here.cycle()
    assert here.started_now() == ["b"]


def test_nothing_starts_and_the_reason_has_the_spending_and_the_end_of_the_period() -> None:
    here = spend(harness(), NO_STARTS)
    here.submit(red("a", 1))
    decided(here)
    here.cycle()
    hold = here.hold_of("a")
    assert hold is not None and [str(one) for one in hold.reasons] == [
        "team has spent $30.00 of its budget of $100.00; from 30 % on no job starts; the next "
        "period begins at 1970-01-02 00:00 UTC"
    ]
    explanation = explain(here.state, "a", here.now_ms)
    assert explanation.forecast is not None
    assert explanation.forecast.basis is Basis.NEXT_PERIOD
    assert explanation.forecast.p50_start_ms == DAY_MS


def test_amounts_are_hidden_from_users_who_do_not_see_all_queues() -> None:
    here = spend(harness(), NO_STARTS)
    (reason,) = here.state.budgets.holds["red"]
    assert hide_spending(reason, None) == hide_spending(reason, frozenset({"red"})) == reason
    hidden = hide_spending(reason, frozenset({"blue"}))
    assert "$" not in str(hidden) and "30 % of its budget" in str(hidden)


def test_running_jobs_continue_while_only_starts_are_blocked() -> None:
    here = harness()
    here.submit(red("a", 4))
    here.cycle()
    here.start_all()
    spend(here, NO_STARTS)
    assert decided(here) == ()


def test_jobs_over_budget_are_stopped_and_wait() -> None:
    here = harness()
    here.submit(red("a", 2), red("fixed", 2, preemptible=False))
    here.cycle()
    here.start("a")
    spend(here, STOP_SOME)
    assert decided(here) == (StopJob(job_id="a", attempt=1, reason=StopReason.BUDGET),)
    here.cycle()
    assert decided(here) == (), "no attempt is stopped twice"
    here.preempted("a")
    assert here.state_of("a") is JobState.QUEUED
    spend(here, STOP_ALL)
    decided(here)
    here.cycle()
    assert here.stop_requested() == ["fixed"], "also one that has not begun to run"
    here.preempted("fixed")
    spend(here, 0)
    decided(here)
    here.cycle()
    assert sorted(here.started_now()) == ["a", "fixed"]


def test_a_claim_is_released() -> None:
    here = harness()
    here.submit(job("b", gpus=8, queue="blue"))
    here.cycle()
    here.start_all()
    here.submit(red("a", 4))
    here.cycle()
    assert here.claimed_now() == ["a"]
    spend(here, NO_STARTS)
    found = decided(here)
    assert ReleaseClaim(job_id="a") in found
    (entry,) = (one for one in list_queue(here.state, here.now_ms) if one.record.id == "a")
    assert entry.reasons == here.state.budgets.holds["red"]
    here.cycle()
    assert here.state.claims == {}


def test_the_nearest_of_equally_strict_budgets_is_named() -> None:
    here = spend(spend(harness(), NO_STARTS), NO_STARTS, "acme")
    above = replace(here.state.tenants["acme"], budget=BUDGET)
    here.apply(TenantChanged(at_ms=here.now_ms, tenant=above))
    assert here.state.budgets.holds["red"][0].tenant == "team"
    assert here.state.budgets.holds["blue"][0].tenant == "acme"


def test_a_tenant_whose_budget_is_removed_can_start_jobs() -> None:
    here = spend(harness(), STOP_ALL)
    assert here.state.budgets.holds
    free = replace(here.state.tenants["team"], budget=None)
    here.apply(TenantChanged(at_ms=here.now_ms, tenant=free))
    here.submit(red("a", 8))
    assert [type(one) for one in decided(here)] == [StartJob]


def test_levels_survive_a_snapshot() -> None:
    here = spend(harness(), STOP_SOME)
    declared = FleetDeclared(
        at_ms=0, fleet=fleet_of(pool("a100")), tenants=tenants(), policies=POLICIES
    )
    there = from_snapshot(to_snapshot(here.state, declared, here.now_ms))
    assert there.budgets.levels == here.state.budgets.levels
    assert there.budgets.holds == here.state.budgets.holds
    assert not state_faults(there)


# -- the checker, on decisions that forget the budget --------------------------------------------------


def faults(here: SchedulerHarness, found: tuple[Decision, ...]) -> list[str]:
    return [one.rule for one in check(here.state, found, here.now_ms)]


def decided_before_spending(here: SchedulerHarness, level: int) -> tuple[Decision, ...]:
    """Decisions made before the budget is spent, checked after it is spent."""
    found = decide(here.state, here.now_ms)
    spend(here, level)
    return found


def test_the_checker_reports_a_start_over_budget() -> None:
    here = harness()
    here.submit(red("a", 1))
    assert "starts-over-budget" in faults(here, decided_before_spending(here, NO_STARTS))


def test_the_checker_reports_forbidden_borrowing() -> None:
    here = harness()
    here.submit(red("a", 8))
    assert "quota-exceeded" in faults(here, decided_before_spending(here, NO_BORROWING))


def test_the_checker_reports_missing_and_unneeded_stops() -> None:
    here = harness()
    here.submit(red("a", 2))
    here.cycle()
    here.start_all()
    assert "runs-over-budget" in faults(here, decided_before_spending(here, STOP_SOME))
    stop = (StopJob(job_id="a", attempt=1, reason=StopReason.BUDGET),)
    assert faults(here, stop) == []
    spend(here, NO_STARTS)
    assert "no-reason-to-stop" in faults(here, stop)
