"""Jobs with a deadline that may run on spot: they wait, use spot, move on demand in time, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.core.check import require_valid
from bursar.core.cycle import decide
from bursar.core.explain.explain import explain
from bursar.core.state.timers import NEVER_MS, next_check_ms
from bursar.model.decision import StartJob, StopJob, StopReason
from bursar.model.event import (
    CheckpointSaved,
    NodeAdded,
    NodeLost,
    NoticeKind,
    PriceChanged,
    SpotNotice,
)
from bursar.model.explain.explanation import Basis
from bursar.model.fleet.fleet import Market, Node
from bursar.model.jobs.job import CheckpointPolicy, FlavorChoice, JobSpec
from bursar.model.reason import WaitsForSpot
from bursar.model.tenants.policy import DeadlineRule, Policies, SpotPolicy
from bursar.model.tenants.tenant import Queueing
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, state_of

BOTH = (Market.SPOT, Market.ON_DEMAND)
SAVES = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS)
TICK_MS = 10 * MINUTE_MS
POLICIES = Policies(spot=SpotPolicy(tick_ms=TICK_MS, change_over_ms=5 * MINUTE_MS))


def timed(
    hours: float = 10, deadline_hours: float = 20, checkpoint: CheckpointPolicy = SAVES
) -> JobSpec:
    deadline_ms = round(deadline_hours * HOUR_MS)
    return job(
        "timed",
        gpus=8,
        hours=hours,
        markets=BOTH,
        checkpoint=checkpoint,
        deadline_ms=deadline_ms,
    )


def harness_of(
    on_demand: int = 2, spot: int = 1, policies: Policies = POLICIES
) -> SchedulerHarness:
    fleet = fleet_of(
        pool("standard", on_demand, gpus=8, market=Market.ON_DEMAND, usd_per_node_hour=30),
        pool(
            "spot",
            spot,
            gpus=8,
            market=Market.SPOT,
            usd_per_node_hour=10,
            interruptions_per_million_hours=20_000,
        ),
    )
    state = state_of(fleet, (queue(),), policies)
    state.spot.begin(0)
    return SchedulerHarness(state)


def step(harness: SchedulerHarness, at_ms: int | None = None) -> str:
    """Runs one cycle; returns the pool the job starts or moves to, or its other decision."""
    harness.now_ms = harness.now_ms if at_ms is None else at_ms
    require_valid(harness.state, decide(harness.state, harness.now_ms), harness.now_ms)
    harness.cycle()
    starts = [one.placement.pool for one in harness.decided(StartJob) if one.job_id == "timed"]
    stops = [one.reason for one in harness.decided(StopJob) if one.job_id == "timed"]
    if starts or stops:
        return str(starts[0] if starts else stops[0])
    held = harness.hold_of("timed") if "timed" in harness.state.jobs else None
    return "" if held is None else type(held.reasons[0]).__name__


def lose_spot(harness: SchedulerHarness, at_ms: int) -> None:
    harness.now_ms = at_ms
    harness.apply(NodeLost(at_ms=at_ms, node="spot-0001"))


def restore_spot(harness: SchedulerHarness, at_ms: int) -> None:
    harness.now_ms = at_ms
    harness.apply(NodeAdded(at_ms=at_ms, node=Node(id="spot-0001", pool="spot")))


def run_until(harness: SchedulerHarness, until_ms: int) -> dict[int, str]:
    """Runs a cycle and a save at every tick; returns the decisions that changed."""
    decisions: dict[int, str] = {}
    while harness.now_ms < until_ms:
        harness.advance(TICK_MS)
        if harness.job("timed").started_at_ms is not None:
            harness.save("timed")
        word = step(harness)
        if word and word not in list(decisions.values())[-1:]:
            decisions[harness.now_ms] = word
        harness.preempted()
        harness.start_all()
    return decisions


def run_until_decided(harness: SchedulerHarness) -> None:
    """Runs until there is a decision about the job, for at most a day."""
    for _ in range(150):
        if step(harness):
            return
        harness.advance(TICK_MS)
    raise AssertionError("no decision")


# -- where it starts -------------------------------------------------------------------------------

FIRST: dict[str, tuple[JobSpec, int, str]] = {
    "spot, while there is time": (timed(), 1, "spot"),
    "nowhere yet, when spot is away and there is time": (timed(), 0, "WaitsForSpot"),
    "on demand, when time is short": (timed(10, 10.4), 1, "standard"),
    "on demand, when the deadline cannot be met": (timed(10, 6), 1, "standard"),
    "spot, for a job that saves nothing and has time for two tries": (
        timed(4, 20, CheckpointPolicy()),
        1,
        "spot",
    ),
    "on demand, for a job without checkpoints and with time for one": (
        timed(10, 18, CheckpointPolicy()),
        1,
        "standard",
    ),
    "by its own order, when that puts spot last": (
        replace(
            timed(),
            constraints=replace(
                timed().constraints,
                markets=(Market.ON_DEMAND, Market.SPOT),
                choose_by=FlavorChoice.ORDER,
            ),
        ),
        1,
        "standard",
    ),
}


@pytest.mark.parametrize("sentence", FIRST)
def test_where_a_deadline_job_starts(sentence: str) -> None:
    spec, nodes, expected = FIRST[sentence]
    harness = harness_of(spot=nodes)
    harness.submit(spec)
    assert step(harness) == expected


def test_a_wait_has_a_reason_in_numbers() -> None:
    harness = harness_of(spot=0)
    harness.submit(timed())
    assert step(harness) == "WaitsForSpot"
    hold = harness.hold_of("timed")
    assert hold is not None
    reason = hold.reasons[0]
    assert isinstance(reason, WaitsForSpot)
    # 20 h, less 10 h of work, 5 min to change over, 5 min to restart and a tick.
    assert reason.wait_ms == 10 * HOUR_MS - 20 * MINUTE_MS
    assert str(reason) == (
        "waits for spot in spot at $10.00 an hour instead of $30.00; 10 h of work left; "
        "to meet its deadline it starts on other capacity in 9 h 40 min at the latest"
    )
    found = explain(harness.state, "timed", 0)
    assert found.forecast is not None and found.forecast.basis is Basis.WAITS_FOR_SPOT
    assert "When: starts when spot capacity is free, in 9 h 40 min at the latest." in found.lines()


def test_a_job_that_waits_for_spot_blocks_no_other_job() -> None:
    tenants = (queue(queueing=Queueing.STRICT),)
    fleet = fleet_of(
        pool("standard", 1, gpus=8, market=Market.ON_DEMAND, usd_per_node_hour=30),
        pool("spot", 0, gpus=8, market=Market.SPOT, usd_per_node_hour=10),
    )
    harness = SchedulerHarness(state_of(fleet, tenants, POLICIES))
    harness.submit(timed())
    harness.submit(job("other", gpus=8, hours=1, markets=(Market.ON_DEMAND,)))
    step(harness)
    assert harness.started_now() == ["other"]


def test_no_job_waits_for_spot_that_is_not_cheaper() -> None:
    harness = harness_of(spot=0)
    harness.apply(PriceChanged(at_ms=0, pool="spot", node_micro_usd_per_hour=30 * USD_MICRO))
    harness.submit(timed())
    assert step(harness) == "standard"


# -- in time ---------------------------------------------------------------------------------------


def test_without_spot_it_takes_non_spot_capacity_at_the_latest_start() -> None:
    harness = harness_of(spot=0)
    harness.submit(timed())
    step(harness)
    decisions = run_until(harness, 20 * HOUR_MS)
    assert list(decisions.values()) == ["WaitsForSpot", "standard"]
    began_ms = max(decisions)
    assert 8 * HOUR_MS < began_ms <= 20 * HOUR_MS - 10 * HOUR_MS - 20 * MINUTE_MS


def test_a_job_leaves_spot_only_when_a_loss_could_make_it_late() -> None:
    harness = harness_of()
    harness.submit(timed(10, 18, CheckpointPolicy(interval_ms=5 * HOUR_MS)))
    assert step(harness) == "spot"
    harness.start_all()
    last_ms = 18 * HOUR_MS - 10 * HOUR_MS - 5 * MINUTE_MS - TICK_MS
    run_until_decided(harness)
    assert harness.decided(StopJob)[0].reason is StopReason.MOVE
    assert last_ms - TICK_MS <= harness.now_ms <= last_ms
    assert step(harness) == "", "ordered once"
    harness.preempted()
    assert harness.job("timed").preemptions == 0, "a move for its own good is no preemption"
    assert step(harness) == "standard"


def test_a_save_allows_a_job_to_stay_on_spot() -> None:
    harness = harness_of()
    harness.submit(timed(10, 13))
    assert step(harness) == "spot"
    harness.start_all()
    assert run_until(harness, 8 * HOUR_MS) == {}


def test_a_job_does_not_move_without_free_capacity() -> None:
    harness = harness_of(on_demand=1)
    harness.submit(job("long", gpus=8, hours=100, markets=(Market.ON_DEMAND,)))
    harness.cycle()
    harness.start_all()
    harness.submit(timed(10, 18, CheckpointPolicy(interval_ms=5 * HOUR_MS)))
    assert step(harness) == "spot"
    harness.start_all()
    assert {step(harness.advance(TICK_MS)) for _ in range(60)} == {""}


def test_the_capacity_a_job_moves_to_is_reserved_while_it_stops() -> None:
    harness = harness_of(on_demand=1)
    harness.submit(timed(10, 18, CheckpointPolicy(interval_ms=5 * HOUR_MS)))
    step(harness)
    harness.start_all()
    run_until_decided(harness)
    harness.submit(job("thief", gpus=8, hours=1, markets=(Market.ON_DEMAND,)))
    step(harness)
    assert harness.started_now() == []
    harness.preempted()
    assert step(harness) == "standard"


def test_a_job_that_is_not_preemptible_is_not_moved() -> None:
    harness = harness_of()
    harness.submit(replace(timed(4, 20), preemptible=False))
    assert step(harness) == "spot"
    harness.start_all()
    assert {step(harness.advance(TICK_MS)) for _ in range(125)} == {""}


def test_a_job_returns_to_spot_when_that_is_safe() -> None:
    harness = harness_of()
    harness.submit(timed(10, 16, CheckpointPolicy(interval_ms=TICK_MS)))
    step(harness)
    harness.start_all()
    lose_spot(harness, HOUR_MS)
    assert list(run_until(harness, 8 * HOUR_MS).values()) == ["WaitsForSpot", "standard"]
    restore_spot(harness, 8 * HOUR_MS)
    assert list(run_until(harness, 15 * HOUR_MS).values()) == ["move", "spot"]


def test_a_job_that_would_then_be_late_stays_on_demand() -> None:
    harness = harness_of()
    harness.submit(timed(10, 16, CheckpointPolicy(interval_ms=HOUR_MS)))
    step(harness)
    harness.start_all()
    lose_spot(harness, HOUR_MS)
    run_until(harness, 8 * HOUR_MS)
    restore_spot(harness, 8 * HOUR_MS)
    assert run_until(harness, 15 * HOUR_MS) == {}


def test_a_node_with_a_notice_is_not_offered() -> None:
    harness = harness_of()
    harness.submit(timed())
    step(harness)
    harness.start_all().advance(HOUR_MS)
    notice = SpotNotice(
        at_ms=harness.now_ms,
        node="spot-0001",
        source="test",
        kind=NoticeKind.TERMINATE,
        ends_at_ms=harness.now_ms + 2 * MINUTE_MS,
    )
    harness.apply(notice)
    step(harness)
    assert [type(one).__name__ for one in harness.decisions] == ["EvacuateJob"]
    harness.preempted()
    assert step(harness) == "WaitsForSpot"


def test_after_its_deadline_a_job_runs_where_it_is_cheapest() -> None:
    harness = harness_of()
    harness.submit(timed(10, 12))
    harness.now_ms = 13 * HOUR_MS
    assert step(harness) == "spot"


@pytest.mark.parametrize("rule", DeadlineRule)
def test_every_deadline_rule_can_be_selected(rule: DeadlineRule) -> None:
    policies = replace(POLICIES, spot=replace(POLICIES.spot, deadline_rule=rule))
    harness = harness_of(policies=policies)
    harness.submit(timed(10, 20))
    expected = "standard" if rule is DeadlineRule.ON_DEMAND else "spot"
    assert step(harness) == expected


# -- timers and texts ------------------------------------------------------------------------------


def test_timers_trigger_cycles_until_the_deadline() -> None:
    harness = harness_of()
    assert next_check_ms(harness.state, 0) == NEVER_MS
    harness.submit(timed())
    assert next_check_ms(harness.state, 0) == TICK_MS
    assert next_check_ms(harness.state, TICK_MS + 1) == 2 * TICK_MS
    assert next_check_ms(harness.state, 20 * HOUR_MS) == NEVER_MS
    step(harness)
    harness.start_all().finish("timed")
    assert next_check_ms(harness.state, 0) == NEVER_MS


def test_every_deadline_job_is_its_own_job_kind() -> None:
    harness = harness_of(spot=0)
    first, second = harness.submit(timed(), timed())
    assert harness.job(first).backlog is not harness.job(second).backlog
    assert (
        harness.job(first).backlog.plan.capacity_key
        == harness.job(second).backlog.plan.capacity_key
    )


def test_costs_deadline_and_saves_are_explained() -> None:
    harness = harness_of()
    harness.submit(
        timed(10, 20, CheckpointPolicy(interval_ms=4 * HOUR_MS, restart_ms=5 * MINUTE_MS))
    )
    step(harness)
    harness.start_all().advance(HOUR_MS)
    attempt = harness.job("timed").attempt
    lines = explain(harness.state, "timed", harness.now_ms).lines()
    lines = [
        line for line in lines if line.split(":")[0] in ("Deadline", "Expected cost", "Checkpoints")
    ]
    assert lines == [
        "Deadline: 10 h of unsaved work, 19 h left to the deadline; it stays on spot for at most 8 h 40 min, "
        "longer if it saves work by then.",
        "Expected cost: spot (spot) at $10.00 an hour for 10 h 25 min instead of 10 h, with an interruption "
        "every 2 d 2 h and a save every 4 h: $104.28.",
        "Expected cost: standard (on-demand) at $30.00 an hour for 10 h: $300.00.",
        "Checkpoints: it saves every 4 h and wastes 4.6 % of its time in spot, which interrupts it "
        "every 2 d 2 h; a save every 1 h 16 min would waste 2.7 %, with 1 min for a save "
        "(assumed, not measured yet).",
    ]
    assert attempt == 1


def test_advice_uses_the_measured_save_time() -> None:
    harness = harness_of()
    harness.submit(timed(10, 20, CheckpointPolicy(interval_ms=4 * HOUR_MS)))
    step(harness)
    harness.start_all().advance(HOUR_MS)
    saved = CheckpointSaved(at_ms=harness.now_ms, job_id="timed", attempt=1, save_ms=10_000)
    harness.apply(saved).apply(replace(saved, save_ms=None))
    view = explain(harness.state, "timed", harness.now_ms).spot
    assert view is not None and view.advice is not None and view.advice.is_measured
    assert view.advice.advised_every_ms == pytest.approx(1000 * (2 * 10 * 180_000) ** 0.5, rel=0.02)
