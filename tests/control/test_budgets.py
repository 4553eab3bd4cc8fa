"""Budgets on the live control plane: hard ones are not exceeded, and thresholds take effect."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bursar.accounting.budgets.budget import BudgetStatus, budget_statuses
from bursar.config import FleetFile, parse_fleet
from bursar.config.job.job_file import JobDocument
from bursar.control.control_plane import OPERATOR, ControlPlane
from bursar.control.live.live_state import LiveState
from bursar.control.requests.fleet_requests import DeclareFleet
from bursar.control.requests.job_requests import SubmitJobs
from bursar.control.requests.submission import Submitted
from bursar.core.explain.explain import explain
from bursar.model.errors import UserError
from bursar.model.event import BudgetLevelChanged, JobSubmitted
from bursar.model.jobs.job import JobState
from bursar.model.units import DAY_MS, HOUR_MS, SECOND_MS, USD_MICRO
from bursar.wiring.verify_store import prove
from tests.control.harness import (
    FLEET,
    ControlPlaneHarness,
    gpu_job,
    row_of,
    submit,
    until,
    until_state,
)

BUDGETED = FLEET.replace("  acme:\n", "  acme:\n    budget: %s\n")
HARD = "{usd: %s, enforcement: hard, period: day}"


def fleet(budget: str, nodes: int = 2) -> FleetFile:
    return parse_fleet({"fleet.yaml": BUDGETED % (nodes, budget)})


@dataclass
class FixedClock:
    """A clock that shows the time a test sets."""

    at_ms: int = 1_800_000_000_000 // DAY_MS * DAY_MS + 8 * HOUR_MS

    def now_ms(self) -> int:
        return self.at_ms


def budget_status(plane: ControlPlane) -> BudgetStatus:
    def query_ledger(live: LiveState, now_ms: int) -> BudgetStatus:
        budgets = live.books.budgets
        (found,) = budget_statuses(budgets.tree, budgets.spending, budgets.meter, now_ms)
        return found

    return plane.query_live(query_ledger).result(10)


def one_job(hours: float = 1, **more: object) -> JobDocument:
    job = gpu_job(1, max_run_ms=int(hours * HOUR_MS))
    return replace(job, spec=replace(job.spec, **more))  # type: ignore[arg-type]


def submit_concurrently(plane: ControlPlane, jobs: list[JobDocument]) -> list[Future[Submitted]]:
    """Submits from many threads, as requests arrive."""
    with ThreadPoolExecutor(16) as threads:
        futures = list(
            threads.map(
                lambda job: plane.send(SubmitJobs(caller=OPERATOR, submissions=[job])), jobs
            )
        )
    return futures


def test_a_thousand_concurrent_submissions_do_not_exceed_the_budget(tmp_path: Path) -> None:
    """$100, of which 99 % is held by one job: only what fits into the last dollar is admitted."""
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(HARD % 100))
    with harness.plane() as plane:
        first = gpu_job(1, max_cost_micro_usd=98_982_000)
        submit(plane, first)
        before = budget_status(plane)
        assert 98_990_000 <= before.committed_micro_usd <= 99_010_000
        futures = submit_concurrently(plane, [one_job(0.1) for _ in range(1_000)])
        refused = [error for one in futures if (error := one.exception(30)) is not None]
        after = budget_status(plane)
        assert {error.code for error in refused if isinstance(error, UserError)} == {"over-budget"}
        assert after.committed_micro_usd <= after.amount_micro_usd == 100 * USD_MICRO
        let_in = 1_000 - len(refused)
        each = next(e for e in events(plane) if e.spec.max_run_ms == HOUR_MS // 10).hold_micro_usd
        assert let_in == (100 * USD_MICRO - before.committed_micro_usd) // each > 3
        holds = [one.hold_micro_usd for one in events(plane)]
    assert len(holds) == let_in + 1 and sum(holds) <= 100 * USD_MICRO
    assert prove(str(tmp_path), None).book_faults == ()


def events(plane: ControlPlane) -> list[JobSubmitted]:
    return [one.event for one in plane.reader.events() if isinstance(one.event, JobSubmitted)]


def test_a_bulk_request_is_admitted_completely_or_not_at_all(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(HARD % 2))
    with harness.plane() as plane:
        each = one_job(1)
        with pytest.raises(UserError) as refused:
            submit(plane, *[each] * 5)
        assert refused.value.code == "over-budget"
        assert budget_status(plane).committed_micro_usd == 0
        assert len(submit(plane, *[each] * 3)) == 3


def test_an_array_holds_for_each_of_its_members(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(HARD % 2))
    with harness.plane() as plane:
        with pytest.raises(UserError) as refused:
            submit(plane, one_job(1, array_size=5))
        assert refused.value.code == "over-budget"
        assert len(submit(plane, one_job(1, array_size=3))) == 3
        assert all(one.hold_micro_usd for one in events(plane))


def test_the_unused_hold_of_a_job_is_released_at_its_end(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(HARD % 1))
    with harness.plane() as plane:
        (job,) = submit(plane, one_job(2))
        with pytest.raises(UserError):
            submit(plane, one_job(2))
        until_state(plane, job, JobState.RUNNING)
        harness.engine.end(job)
        until_state(plane, job, JobState.SUCCEEDED)
        now = budget_status(plane)
        assert now.held_micro_usd == 0 and 0 < now.spent_micro_usd < 10_000
        submit(plane, one_job(2))


def test_a_job_without_a_cost_limit_is_refused(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(HARD % 100))
    with harness.plane() as plane, pytest.raises(UserError) as refused:
        submit(plane, gpu_job())
    assert refused.value.code == "needs-a-limit"
    assert "max_hours or max_cost" in refused.value.fix


def test_the_refusal_contains_all_amounts_and_the_end_of_the_period(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(HARD % 1), clock=FixedClock())
    with harness.plane() as plane:
        submit(plane, one_job(1))
        with pytest.raises(UserError) as refused:
            submit(plane, one_job(2))
    text = f"{refused.value.problem} {refused.value.fix}"
    for part in ("$1.00 a day", "$0.00 is spent", "$0.44 is held", "up to $0.84", "2027-01-16"):
        assert part in text, text


def test_a_soft_budget_needs_no_limit_and_refuses_nothing(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path, fleet=fleet("{usd: 0.01, period: day}"))
    with harness.plane() as plane:
        assert len(submit(plane, gpu_job(), one_job(500))) == 2
        assert [one.hold_micro_usd for one in events(plane)] == [0, 0]


def levels(plane: ControlPlane) -> list[BudgetLevelChanged]:
    return [one.event for one in plane.reader.events() if isinstance(one.event, BudgetLevelChanged)]


STEPS = (
    "{usd: 10, period: day, steps: [{at_percent: 20, action: notify}, "
    "{at_percent: 40, action: block-new}, {at_percent: 80, action: stop-all}]}"
)


def test_thresholds_are_reached_in_time_and_apply_until_the_next_period(tmp_path: Path) -> None:
    """Four GPUs of two nodes cost $1.60 an hour each; $10 a day."""
    clock = FixedClock()
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(STEPS), clock=clock)
    with harness.plane() as plane:
        first, second = submit(plane, gpu_job(4), gpu_job(4, queue="experiments"))
        until_state(plane, first, JobState.RUNNING)
        until_state(plane, second, JobState.RUNNING)
        clock.at_ms += HOUR_MS
        until(lambda: [one.level for one in levels(plane)] == [20], "20 % of $10 is spent")
        clock.at_ms += HOUR_MS // 2
        until(lambda: [one.level for one in levels(plane)] == [20, 40], "40 % is spent")
        (third,) = submit(plane, gpu_job())
        why = plane.query_state(lambda state, now_ms: explain(state, third, now_ms)).result(10)
        reasons = "; ".join(map(str, why.reasons))
        assert "acme has spent $4.80 of its budget of $10.00" in reasons
        assert "2027-01-16 00:00 UTC" in reasons
        clock.at_ms += HOUR_MS + SECOND_MS
        until_state(plane, first, JobState.QUEUED)
        until_state(plane, second, JobState.QUEUED)
        clock.at_ms = clock.at_ms // DAY_MS * DAY_MS + DAY_MS
        until_state(plane, first, JobState.RUNNING)
        until_state(plane, second, JobState.RUNNING)
        assert [one.level for one in levels(plane)] == [20, 40, 80, 0]
    with harness.plane() as plane:
        assert (
            plane.query_state(lambda state, _now_ms: state.budgets.levels["acme"].level).result(10)
            == 0
        )


def test_levels_survive_a_restart_and_a_new_declaration(tmp_path: Path) -> None:
    clock = FixedClock()
    harness = ControlPlaneHarness(tmp_path, fleet=fleet(STEPS), clock=clock)
    with harness.plane() as plane:
        (first,) = submit(plane, gpu_job(4))
        until_state(plane, first, JobState.RUNNING)
        clock.at_ms += 3 * HOUR_MS
        until(lambda: [one.level for one in levels(plane)] == [40], "40 % is spent")
    with harness.plane() as plane:
        (second,) = submit(plane, gpu_job())
        until(lambda: row_of(plane, second).state is JobState.QUEUED, "it waits")
        held = plane.query_state(lambda state, _now_ms: sorted(state.budgets.holds)).result(10)
        assert held == ["experiments", "retraining"]
        richer = fleet(STEPS.replace("usd: 10", "usd: 100"))
        plane.send(DeclareFleet(caller=OPERATOR, declared=richer)).result(10)
        until_state(plane, second, JobState.RUNNING)
        assert [one.level for one in levels(plane)] == [40, 0]
