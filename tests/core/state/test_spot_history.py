"""Learned interruption rates of spot pools, expected costs, and how similar jobs are spread."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from bursar.core.check import require_valid
from bursar.core.cycle import decide
from bursar.core.deadline.availability import HIGHEST_STEP, LOWEST_STEP
from bursar.core.state.snapshot import from_snapshot, to_snapshot
from bursar.model.decision import StartJob
from bursar.model.event import FleetDeclared, NodeAdded, NodeLost
from bursar.model.fleet.fleet import Market, Node
from bursar.model.jobs.checkpoint_formulas import NEVER_ENDS_MS, InterruptionHazard, expected_run_ms
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.tenants.policy import Policies, SpotPolicy
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.properties.dump import dump
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, state_of
from tests.support.fleets import PoolPlan

BOTH = (Market.SPOT, Market.ON_DEMAND)
HOURLY = CheckpointPolicy(interval_ms=HOUR_MS, restart_ms=5 * MINUTE_MS)
NOTHING_SAVED = CheckpointPolicy()
STEADY = pool("steady", 8, gpus=8, market=Market.ON_DEMAND, usd_per_node_hour=30)


def spot(name: str, nodes: int = 8, usd: float = 10, rate: int = 20_000) -> PoolPlan:
    return pool(
        name,
        nodes,
        gpus=8,
        market=Market.SPOT,
        usd_per_node_hour=usd,
        interruptions_per_million_hours=rate,
    )


def either(
    name: str,
    hours: float,
    checkpoint: CheckpointPolicy = NOTHING_SAVED,
    deadline_ms: int | None = None,
) -> JobSpec:
    spec = job(name, gpus=8, hours=hours, markets=BOTH, checkpoint=checkpoint)
    return replace(spec, deadline_ms=deadline_ms)


def harness_of(*pools: PoolPlan, policies: Policies | None = None) -> SchedulerHarness:
    state = state_of(fleet_of(*pools), (queue(),), policies)
    state.spot.begin(0)
    return SchedulerHarness(state)


def chosen_pools(harness: SchedulerHarness) -> dict[str, int]:
    decisions = harness.cycle()
    return dict(Counter(one.placement.pool for one in decisions if isinstance(one, StartJob)))


# -- expected cost ---------------------------------------------------------------------------------

CHOICES: dict[str, tuple[JobSpec, int, str]] = {
    "a job that saves takes spot": (either("a", 48, checkpoint=HOURLY), 50_000, "spot"),
    "a short job that saves nothing takes spot": (either("a", 4), 50_000, "spot"),
    "a long job without checkpoints takes the pool without interruptions": (
        either("a", 48),
        50_000,
        "steady",
    ),
    "a long job that saves nothing takes spot where losses are rare": (
        either("a", 48),
        5_000,
        "spot",
    ),
    "a gang is interrupted as often as all its nodes together": (
        job("a", gpus=8, tasks=8, hours=12, markets=BOTH),
        20_000,
        "steady",
    ),
    "a saving gang bears it": (
        job("a", gpus=8, tasks=8, hours=12, markets=BOTH, checkpoint=HOURLY),
        20_000,
        "spot",
    ),
    "a restart that takes longer than spot lasts is never worth it": (
        either("a", 48, checkpoint=CheckpointPolicy(interval_ms=HOUR_MS, restart_ms=20 * HOUR_MS)),
        90_000,
        "steady",
    ),
}


@pytest.mark.parametrize("sentence", CHOICES)
def test_the_pool_is_chosen_by_expected_cost(sentence: str) -> None:
    spec, rate, wanted = CHOICES[sentence]
    harness = harness_of(STEADY, spot("spot", rate=rate))
    harness.submit(spec)
    assert chosen_pools(harness) == {wanted: 1}


def test_expected_time_grows_with_the_rate_up_to_infinity() -> None:
    times = [
        expected_run_ms(48 * HOUR_MS, HOURLY, InterruptionHazard(per_million_hours=rate, nodes=2))
        for rate in (0, 1_000, 10_000, 100_000, 1_000_000)
    ]
    assert times == sorted(times) and times[0] == 48 * HOUR_MS < times[1]
    unsaved = InterruptionHazard(per_million_hours=1_000_000)
    assert expected_run_ms(48 * HOUR_MS, CheckpointPolicy(), unsaved) == NEVER_ENDS_MS
    once_a_day = InterruptionHazard(per_million_hours=1_000_000 // 24)
    # The mean time to come through 24 h in one piece, by the textbook: (e - 1) days.
    hours = expected_run_ms(24 * HOUR_MS, CheckpointPolicy(), once_a_day) / HOUR_MS
    assert hours == pytest.approx(24 * 1.71828, rel=1e-4)


# -- what is learned -------------------------------------------------------------------------------


def lose(harness: SchedulerHarness, name: str, at_ms: int) -> None:
    """A node is lost and another joins at the same time."""
    harness.now_ms = at_ms
    harness.apply(NodeLost(at_ms=at_ms, node=name))
    harness.apply(NodeAdded(at_ms=at_ms, node=Node(id=name, pool=name.rpartition("-")[0])))


def test_losses_raise_the_declared_rate_and_days_without_losses_lower_it() -> None:
    harness = harness_of(STEADY, spot("spot", nodes=4, rate=10_000))
    past = harness.state.spot.pools["spot"]
    assert past.per_million_hours(0) == 10_000
    assert past.per_million_hours(5 * DAY_MS) < 5_000
    for hour in range(1, 11):
        lose(harness, "spot-0001", hour * HOUR_MS)
    # 1 + 10 losses in the 100 declared and 40 seen hours of nodes, hardly faded yet.
    assert past.per_million_hours(10 * HOUR_MS) == pytest.approx(11 / 140 * 1_000_000, rel=0.02)
    assert harness.state.pools["spot"].interruptions_per_million_hours == past.per_million_hours(
        10 * HOUR_MS
    )
    faded = past.per_million_hours(60 * DAY_MS)
    assert faded < 2_000


def test_a_pool_without_a_declared_rate_has_none_until_a_node_is_lost() -> None:
    harness = harness_of(STEADY, spot("spot", nodes=1, rate=0))
    past = harness.state.spot.pools["spot"]
    assert past.per_million_hours(DAY_MS) == 0
    lose(harness, "spot-0001", 20 * HOUR_MS)
    assert past.per_million_hours(20 * HOUR_MS) == pytest.approx(1.5 / 120 * 1_000_000, rel=0.03)


def test_a_pool_that_loses_many_nodes_is_no_longer_chosen() -> None:
    harness = harness_of(STEADY, spot("spot", rate=2_000))
    harness.submit(either("before", 48))
    assert chosen_pools(harness) == {"spot": 1}
    for hour in range(1, 41):
        lose(harness, "spot-0008", hour * HOUR_MS)
    harness.submit(either("after", 48))
    assert chosen_pools(harness) == {"steady": 1}


def test_intervals_are_learned_with_the_declared_rate_as_the_prior() -> None:
    quiet, hasty = harness_of(spot("a", 1, rate=5_000)), harness_of(spot("a", 1, rate=2_000_000))
    steps = [one.state.spot.availability(["a"], HOUR_MS).up_step for one in (quiet, hasty)]
    assert steps[0] < 0 < steps[1]
    for hour in range(1, 60):
        quiet.apply(NodeLost(at_ms=hour * HOUR_MS, node="a-0001"))
        back_ms = hour * HOUR_MS + 5 * MINUTE_MS
        quiet.apply(NodeAdded(at_ms=back_ms, node=Node(id="a-0001", pool="a")))
    learned = quiet.state.spot.availability(["a"], 60 * HOUR_MS)
    assert steps[0] < learned.up_step <= HIGHEST_STEP and learned.up and learned.age > 0
    later = quiet.state.spot.availability(["a"], 90 * DAY_MS)
    assert LOWEST_STEP <= later.up_step < learned.up_step and later.age > learned.age


def test_queries_change_nothing_and_two_short_intervals_equal_one_long() -> None:
    once, often = harness_of(spot("a", 3, rate=5_000)), harness_of(spot("a", 3, rate=5_000))
    for hour in range(1, 50):
        often.state.spot.pools["a"].observe(hour * HOUR_MS, lost=False)
        assert often.state.spot.availability(["a"], hour * HOUR_MS) == once.state.spot.availability(
            ["a"], hour * HOUR_MS
        )
    rates = [one.state.spot.pools["a"].per_million_hours(9 * DAY_MS) for one in (once, often)]
    assert rates[0] == pytest.approx(rates[1], abs=1)


def test_the_history_survives_a_snapshot() -> None:
    pools = (STEADY, spot("a", 4, rate=10_000), spot("b", 4, usd=10.5, rate=10_000))
    harness = harness_of(*pools)
    for hour in range(1, 20):
        lose(harness, "a-0001", hour * HOUR_MS)
    harness.submit(*(either(f"job-{number}", 20, checkpoint=HOURLY) for number in range(6)))
    fleet = fleet_of(*pools)
    declared = FleetDeclared(at_ms=0, fleet=fleet, tenants=(queue(),), policies=Policies())
    twin = from_snapshot(to_snapshot(harness.state, declared, 20 * HOUR_MS))
    assert twin.spot.to_snapshot() == harness.state.spot.to_snapshot() != ()
    for name in ("a", "b"):
        rates = [one.pools[name].interruptions_per_million_hours for one in (twin, harness.state)]
        assert rates[0] == rates[1]
    assert decide(twin, 21 * HOUR_MS) == decide(harness.state, 21 * HOUR_MS) != ()


# -- spread ----------------------------------------------------------------------------------------

EVEN = {"a": 4, "b": 4}
SPREADS: dict[str, tuple[tuple[PoolPlan, PoolPlan], int, dict[str, int]]] = {
    "equal pools get equal shares": ((spot("a"), spot("b")), 25, EVEN),
    "a pool that is a little dearer gets fewer": (
        (spot("a"), spot("b", usd=11)),
        25,
        {"a": 6, "b": 2},
    ),
    "a pool that is much dearer gets none": ((spot("a"), spot("b", usd=13)), 25, {"a": 8}),
    "a pool that is interrupted more often gets fewer": (
        (spot("a"), spot("b", rate=250_000)),
        25,
        {"a": 6, "b": 2},
    ),
    "without a spread all go to the cheapest": ((spot("a"), spot("b", usd=10.1)), 0, {"a": 8}),
    "what is full is full": ((spot("a", nodes=2), spot("b")), 25, {"a": 2, "b": 6}),
}


@pytest.mark.parametrize("sentence", SPREADS)
def test_similar_jobs_are_spread_by_price_and_interruptions(sentence: str) -> None:
    pools, percent, wanted = SPREADS[sentence]
    harness = harness_of(STEADY, *pools, policies=Policies(spot=SpotPolicy(spread_percent=percent)))
    harness.submit(*(either(f"job-{number}", 12, checkpoint=HOURLY) for number in range(8)))
    require_valid(harness.state, decide(harness.state, 0), 0)
    assert chosen_pools(harness) == wanted


def test_running_jobs_count() -> None:
    harness = harness_of(STEADY, spot("a"), spot("b"))
    for number in range(4):
        harness.submit(either(f"job-{number}", 12, checkpoint=HOURLY))
        harness.cycle()
    in_pools = Counter(record.placement.pool for record in harness.state.live() if record.placement)
    assert in_pools == {"a": 2, "b": 2}
    first = next(one for one in harness.state.live() if one.placement and one.placement.pool == "a")
    harness.start_all().finish(first.id)
    harness.submit(either("next", 12, checkpoint=HOURLY))
    assert chosen_pools(harness) == {"a": 1}


# -- without spot ----------------------------------------------------------------------------------


def test_a_fleet_without_spot_has_no_spot_history() -> None:
    harness = harness_of(STEADY, pool("owned", 2, gpus=8))
    harness.submit(either("a", 12, deadline_ms=30 * HOUR_MS, checkpoint=HOURLY))
    plan = harness.job("a").backlog.plan
    assert not harness.state.spot.pools and not harness.state.backlogs.deadline_jobs
    assert not plan.needs_pool_choice and plan.similar_by_pool is None and plan.shape.own == ""


def test_the_core_imports_no_numpy_before_a_table_is_needed() -> None:
    program = "import sys, bursar.core.cycle; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_cycle_changes_no_history() -> None:
    harness = harness_of(STEADY, spot("a", 3), spot("b", 3, usd=11))
    harness.submit(*(either(f"plain-{number}", 12, checkpoint=HOURLY) for number in range(4)))
    harness.submit(*(either(f"unsaved-{number}", 40) for number in range(2)))
    harness.submit(either("timed", 12, checkpoint=HOURLY, deadline_ms=30 * HOUR_MS))
    harness.submit(either("tight", 12, checkpoint=HOURLY, deadline_ms=13 * HOUR_MS))
    for hour in range(1, 24):
        similar = dict(harness.job("timed").backlog.plan.similar_by_pool or {}) if hour < 9 else {}
        before, now_ms = dump(harness.state), hour * HOUR_MS
        first = decide(harness.state, now_ms)
        require_valid(harness.state, first, now_ms)
        assert dump(harness.state) == before
        assert decide(harness.state, now_ms) == first
        if hour < 9:
            counted = harness.job("timed").backlog.plan.similar_by_pool or {}
            assert {k: v for k, v in counted.items() if v} == {
                k: v for k, v in similar.items() if v
            }
        harness.now_ms = now_ms
        harness.cycle()
        harness.preempted()
        harness.start_all()
        if hour % 4 == 0:
            lose(harness, "a-0002", now_ms)
