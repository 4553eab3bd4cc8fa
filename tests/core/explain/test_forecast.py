"""Forecast starts compared with the true starts in a simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bursar.core.draft import Draft, Reservation
from bursar.core.explain import forecast as forecast_module
from bursar.core.explain import queue_position
from bursar.core.explain.explain import explain
from bursar.core.explain.lookahead import ReplayedReservations
from bursar.core.reservation.expected_ends import STOP_MS, EndOdds
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import NodeDrained
from bursar.model.explain.explanation import Basis, Forecast
from bursar.model.jobs.job import JobSpec
from bursar.model.lifecycle import LIVE
from bursar.model.tenants.policy import BackfillPolicy, Policies
from bursar.model.tenants.tenant import Queueing
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.core.observable_state import observable_state
from tests.core.small_fleets import shared
from tests.support import (
    SchedulerHarness,
    fleet_of,
    job,
    mig_job,
    pool,
    queue,
    quota,
    state_of,
    tenant,
)
from tests.support.fleets import MAIN_QUEUE

FEWER = settings(max_examples=settings.default.max_examples // 3)
"""Each example simulates a whole fleet, so there are fewer of them."""


def run_jobs(harness: SchedulerHarness, *specs: JobSpec) -> SchedulerHarness:
    """Submits jobs, runs a cycle and starts everything it placed."""
    harness.submit(*specs)
    harness.cycle()
    return harness.start_all()


def forecast(state: FleetState, job_id: str, now_ms: int) -> Forecast:
    return forecast_module.forecast(state, state.jobs[job_id], now_ms)


def one_node(gpus: int = 8) -> SchedulerHarness:
    return SchedulerHarness(state_of(fleet_of(pool("a100", nodes=1, gpus=gpus))))


def true_start_ms(harness: SchedulerHarness, job_id: str, most_steps: int = 500) -> int | None:
    """Simulates until the job starts; every job ends exactly as expected."""
    for _ in range(most_steps):
        ends = {
            record.id: record.started_at_ms + (record.spec.expected_run_ms or 0)
            for record in harness.state.live()
            if record.started_at_ms is not None
        }
        if not ends:
            return None
        harness.now_ms = min(ends.values())
        harness.finish(*sorted(name for name, end_ms in ends.items() if end_ms == harness.now_ms))
        harness.cycle()
        harness.start_all()
        if job_id not in harness.state.jobs or harness.state.jobs[job_id].state in LIVE:
            return harness.now_ms
    raise AssertionError("the job never started")


# -- single cases ----------------------------------------------------------------------------------


def test_it_starts_when_the_job_that_fills_the_node_is_expected_to_end() -> None:
    harness = run_jobs(one_node(), job("long", gpus=8, hours=3, max_hours=5))
    run_jobs(harness.advance(HOUR_MS), job("next", gpus=4, hours=1))
    result = forecast(harness.state, "next", harness.now_ms)
    assert (result.p50_start_ms, result.p90_start_ms) == (3 * HOUR_MS, 5 * HOUR_MS)
    assert result.basis is Basis.REPLAY


def test_without_a_limit_p90_assumes_one_and_a_half_times_the_expected_run_time() -> None:
    harness = run_jobs(one_node(), job("long", gpus=8, hours=4), job("next", gpus=8))
    result = forecast(harness.state, "next", harness.now_ms)
    assert (result.p50_start_ms, result.p90_start_ms) == (4 * HOUR_MS, 6 * HOUR_MS)


def test_jobs_ahead_are_counted_and_start_first() -> None:
    harness = run_jobs(one_node(), job("earlier", gpus=8, hours=1), job("first", gpus=8, hours=2))
    run_jobs(harness.advance(1), job("second", gpus=8, hours=1))
    result = forecast(harness.state, "second", harness.now_ms)
    assert result.p50_start_ms == 3 * HOUR_MS
    assert (result.ahead_jobs, result.ahead_gpu_ms) == (1, 16 * HOUR_MS)


def test_a_job_that_fits_starts_now() -> None:
    harness = one_node()
    harness.submit(job("free", gpus=2))
    result = forecast(harness.state, "free", 7)
    assert (result.p50_start_ms, result.p90_start_ms, result.basis) == (7, 7, Basis.STARTS_NOW)


def test_an_overdue_job_is_expected_to_end_soon_and_may_run_half_as_long_again() -> None:
    harness = run_jobs(one_node(), job("late", gpus=8, hours=1))
    run_jobs(harness.advance(4 * HOUR_MS), job("next", gpus=8))
    result = forecast(harness.state, "next", harness.now_ms)
    assert result.p50_start_ms == harness.now_ms + MINUTE_MS
    assert result.p90_start_ms == 6 * HOUR_MS


def test_a_short_job_may_backfill_before_a_blocked_gang_and_a_long_one_may_not() -> None:
    harness = run_jobs(one_node(), job("half", gpus=4, hours=4))
    run_jobs(harness.advance(1), job("whole", gpus=8, hours=10))
    run_jobs(harness.advance(1), job("long", gpus=4, hours=20))
    assert forecast(harness.state, "whole", harness.now_ms).p50_start_ms == 4 * HOUR_MS
    assert forecast(harness.state, "long", harness.now_ms).p50_start_ms == 14 * HOUR_MS
    harness.submit(job("short", gpus=4, hours=2))
    assert forecast(harness.state, "short", harness.now_ms).basis is Basis.STARTS_NOW


def test_quota_is_free_again_when_its_jobs_end() -> None:
    flavor = "a100-80gb/owned"
    tenants = [queue("research", quota={flavor: quota(4, borrow=0)}), queue("other")]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=4)), tenants))
    run_jobs(harness, job("mine", gpus=4, hours=2), job("theirs", gpus=8, hours=9, queue="other"))
    run_jobs(harness.advance(1), job("next", gpus=3, hours=1))
    assert forecast(harness.state, "next", harness.now_ms).p50_start_ms == 2 * HOUR_MS


def test_it_waits_for_its_dependency_and_then_for_capacity() -> None:
    harness = run_jobs(one_node(), job("first", gpus=4, hours=2), job("second", gpus=4, hours=6))
    run_jobs(harness, job("after", gpus=8, hours=1, depends_on=("first",)))
    result = forecast(harness.state, "after", harness.now_ms)
    assert (result.p50_start_ms, result.note) == (6 * HOUR_MS, "after first")


def test_a_chain_of_dependencies_adds_up() -> None:
    harness = run_jobs(one_node(), job("a", gpus=8, hours=2))
    run_jobs(harness, job("b", gpus=8, hours=3, depends_on=("a",)))
    run_jobs(harness, job("c", gpus=8, hours=1, depends_on=("b",)))
    assert forecast(harness.state, "c", harness.now_ms).p50_start_ms == 5 * HOUR_MS


def test_a_claimant_starts_when_its_victims_have_stopped() -> None:
    harness = run_jobs(one_node(), job("low", gpus=8, hours=9, priority_class="low"))
    run_jobs(harness.advance(HOUR_MS), job("urgent", gpus=8, priority_class="high"))
    assert harness.claimed_now() == ["urgent"]
    result = forecast(harness.state, "urgent", harness.now_ms)
    assert result.basis is Basis.VICTIMS_LEAVE
    assert result.p50_start_ms == harness.now_ms + STOP_MS[EndOdds.EVEN]


def test_a_job_behind_a_claimant_waits_for_its_end() -> None:
    harness = run_jobs(one_node(), job("low", gpus=8, hours=9, priority_class="low"))
    run_jobs(harness.advance(HOUR_MS), job("urgent", gpus=8, hours=2, priority_class="high"))
    run_jobs(harness, job("next", gpus=8, hours=1))
    result = forecast(harness.state, "next", harness.now_ms)
    assert result.p50_start_ms == harness.now_ms + STOP_MS[EndOdds.EVEN] + 2 * HOUR_MS


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        (job("x", gpus=16), "nodes have 8 GPUs, a task wants 16"),
        (job("x", gpus=8, tasks=3), "no expected end frees enough capacity"),
        (job("x", gpus=1, queue="poor"), "the quota of poor for a100-80gb/owned is too small"),
        (job("x", gpus=1, depends_on=("lost",)), "it depends on lost (unknown)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_job_that_can_never_start_has_no_start_and_a_reason(spec: JobSpec, note: str) -> None:
    flavor = "a100-80gb/owned"
    tenants = [queue("research", quota={flavor: 99}), queue("poor", quota={flavor: 0})]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=2)), tenants))
    run_jobs(harness, job("runs", gpus=8, hours=1, queue="research"), spec)
    result = forecast(harness.state, "x", harness.now_ms)
    assert (result.p50_start_ms, result.p90_start_ms, result.basis) == (None, None, Basis.NEVER)
    assert note in result.note


def test_on_a_drained_fleet_no_start_is_expected() -> None:
    harness = run_jobs(one_node(), job("runs", gpus=8, hours=1))
    harness.apply(NodeDrained(at_ms=0, node="a100-0001"))
    run_jobs(harness, job("next", gpus=1))
    assert forecast(harness.state, "next", harness.now_ms).basis is Basis.NEVER


def test_a_running_job_and_a_finished_one_have_no_forecast() -> None:
    harness = run_jobs(one_node(), job("a", gpus=1), job("b", gpus=1))
    harness.finish("b")
    for job_id in ("a", "b"):
        assert explain(harness.state, job_id, harness.now_ms).forecast is None


def test_a_mig_slice_starts_when_a_gpu_is_free() -> None:
    harness = run_jobs(one_node(gpus=1), job("whole", gpus=1, hours=2))
    run_jobs(harness.advance(1), mig_job("slice", "1g.10gb"))
    assert forecast(harness.state, "slice", harness.now_ms).p50_start_ms == 2 * HOUR_MS


def test_no_job_passes_the_blocked_head_of_a_strict_queue() -> None:
    strict = queue("research", queueing=Queueing.STRICT)
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=1)), [strict]))
    run_jobs(harness, job("short", gpus=4, hours=1), job("long", gpus=4, hours=4))
    run_jobs(harness.advance(1), job("head", gpus=8, hours=2))
    run_jobs(harness.advance(1), job("small", gpus=4, hours=1))
    assert forecast(harness.state, "small", harness.now_ms).p50_start_ms == 6 * HOUR_MS
    assert true_start_ms(harness, "small") == 6 * HOUR_MS


@pytest.mark.parametrize(("job_id", "start_ms"), [("r2", 2 * HOUR_MS), ("p2", 190 * MINUTE_MS)])
def test_a_team_whose_job_ends_has_a_smaller_share_and_goes_first(
    job_id: str, start_ms: int
) -> None:
    """Research has used more by now, but when its job ends, product holds half of the fleet."""
    harness = run_jobs(shared(2), job("r1", gpus=8, hours=2, queue="research"))
    run_jobs(harness.advance(10 * MINUTE_MS), job("p1", gpus=8, hours=3, queue="product"))
    harness.advance(10 * MINUTE_MS)
    run_jobs(
        harness,
        *(job(f"{team[0]}2", gpus=8, hours=9, queue=team) for team in ("research", "product")),
    )
    assert forecast(harness.state, job_id, harness.now_ms).p50_start_ms == start_ms
    assert true_start_ms(harness, job_id) == start_ms


# -- a long backlog --------------------------------------------------------------------------------


def busy_fleet(waiting: int) -> SchedulerHarness:
    """Sixteen nodes of one-GPU jobs between one and four hours, and a backlog of the same."""
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=16))))
    for number in range(128 + waiting):
        harness.submit(job(f"j{number:04d}", gpus=1, hours=1 + number * 7 % 13 / 4))
        harness.advance(1)
    harness.cycle()
    return harness.start_all()


@pytest.mark.parametrize("waiting", [40, 150, 600])
def test_the_estimate_by_work_ahead_is_close_to_the_lookahead(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = busy_fleet(waiting)
    last = f"j{127 + waiting:04d}"
    simulated = forecast(harness.state, last, harness.now_ms)
    monkeypatch.setattr(forecast_module, "MOST_STARTS", 0)
    estimated = forecast(harness.state, last, harness.now_ms)
    assert (simulated.basis, estimated.basis) == (Basis.REPLAY, Basis.WORK_AHEAD)
    assert simulated.p50_start_ms is not None and estimated.p50_start_ms is not None
    assert estimated.p50_start_ms == pytest.approx(simulated.p50_start_ms, rel=0.3)


def test_a_lookahead_over_jobs_ahead_only_is_close_to_the_true_start() -> None:
    harness = busy_fleet(300)
    result = forecast(harness.state, "j0400", harness.now_ms)
    assert result.p50_start_ms == pytest.approx(true_start_ms(harness, "j0400"), rel=0.05)


# -- properties ------------------------------------------------------------------------------------


def jobs_of_one_queue(most_gpus: int = 8) -> st.SearchStrategy[list[JobSpec]]:
    one = st.builds(
        lambda gpus, hours: job("j", gpus=gpus, hours=hours),
        st.integers(1, most_gpus),
        st.sampled_from([0.5, 1, 1.5, 2, 3, 5, 8]),
    )
    return st.lists(one, min_size=3, max_size=14)


@FEWER
@given(jobs_of_one_queue(), st.integers(1, 3), st.integers(0, 2))
def test_with_exact_run_times_the_forecast_is_exact(
    specs: list[JobSpec], nodes: int, reservations: int
) -> None:
    policies = Policies(backfill=BackfillPolicy(reservations=reservations))
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=nodes)), policies=policies))
    for spec in specs:
        harness.submit(spec)
        harness.advance(MINUTE_MS)
    harness.cycle()
    harness.start_all()
    waiting = harness.waiting()
    if not waiting:
        return
    results = {job_id: forecast(harness.state, job_id, harness.now_ms) for job_id in waiting}
    for job_id in waiting:
        if job_id in harness.waiting():
            true_ms = true_start_ms(harness, job_id)
            assert results[job_id].p50_start_ms == true_ms, job_id


@FEWER
@given(jobs_of_one_queue(), st.integers(0, 3))
def test_a_forecast_is_never_in_the_past_and_changes_no_state(
    specs: list[JobSpec], hours_later: int
) -> None:
    flavor = "a100-80gb/owned"
    tenants = [
        tenant("co", quota={flavor: 12}),
        queue("research", "co", quota={flavor: quota(4, lend=2)}),
        queue("product", "co"),
    ]
    harness = SchedulerHarness(state_of(fleet_of(pool("a100", nodes=2)), tenants))
    for number, spec in enumerate(specs):
        urgency = ("low", "normal", "high")[number % 3]
        changed = replace(spec, queue=("research", "product")[number % 2], priority_class=urgency)
        if number % 4 == 3:
            changed = replace(changed, expected_run_ms=None)
        if number % 5 == 4:
            changed = replace(changed, depends_on=("j",))
        harness.submit(changed)
        if number % 3 == 0:
            harness.cycle()
            harness.start_all().advance(10 * MINUTE_MS)
    harness.advance(hours_later * HOUR_MS)
    before = observable_state(harness.state, harness.now_ms)
    for job_id in harness.waiting():
        result = forecast(harness.state, job_id, harness.now_ms)
        if result.p50_start_ms is not None and result.p90_start_ms is not None:
            assert harness.now_ms <= result.p50_start_ms <= result.p90_start_ms
        else:
            assert result.p50_start_ms is result.p90_start_ms is None and result.note
    assert observable_state(harness.state, harness.now_ms) == before


def test_jobs_that_stay_apart_start_one_after_the_other() -> None:
    harness = run_jobs(one_node(), job("running", hours=1, apart="x"))
    harness.submit(job("second", hours=3, apart="x"))
    harness.advance(1).submit(job("third", hours=2, apart="x"))
    harness.cycle()
    assert forecast(harness.state, "second", harness.now_ms).p50_start_ms == HOUR_MS
    assert forecast(harness.state, "third", harness.now_ms).p50_start_ms == 4 * HOUR_MS


def test_a_reservation_is_dropped_when_its_owner_starts() -> None:
    harness = run_jobs(one_node(), job("running", gpus=8, hours=1), job("held", gpus=8, hours=1))
    draft = Draft(harness.state, harness.now_ms)
    draft.planned = [
        Reservation(job_id="held", queue=MAIN_QUEUE, pool="a100", at_ms=HOUR_MS, nodes=(), slack={})
    ]
    reservations = ReplayedReservations(draft, replan=False)
    reservations.lift()
    reservations.answered(harness.job("held"), started=True)
    assert draft.planned == []


def test_a_position_beyond_the_exact_turns_is_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = run_jobs(one_node(), job("running", gpus=8, hours=1))
    for number in range(12):
        harness.advance(1).submit(job(f"held-{number:02}", gpus=8, hours=1 + number % 3))
    harness.cycle()
    exact = explain(harness.state, "held-11", harness.now_ms).position
    assert exact is not None and exact.is_exact
    monkeypatch.setattr(queue_position, "EXACT_TURNS", 3)
    rough = explain(harness.state, "held-11", harness.now_ms).position
    assert rough is not None and not rough.is_exact
    assert rough.overall == exact.overall
