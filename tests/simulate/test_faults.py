"""Each kind of fault: when it occurs and what it costs; faults are drawn independently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise

import pytest

from bursar.core.check import require_valid
from bursar.model.event import (
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    JobSubmitted,
    NodeAdded,
    NodeLost,
    NoticeKind,
    SpotNotice,
)
from bursar.model.fleet.fleet import Fleet, Market, Node
from bursar.model.jobs.job import CheckpointPolicy, JobSpec, JobState
from bursar.model.units import HOUR_MS, MILLI, MINUTE_MS, SECOND_MS
from bursar.simulate.faults import (
    Faults,
    NodeLosses,
    NodeOutage,
    PoolSeries,
    SlowStarts,
    SpotReclaims,
    Stragglers,
)
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from bursar.simulate.virtual_clock import VirtualClock
from tests.support import fleet_of, job, pool, queue

YEAR_MS = 8760 * HOUR_MS
NO_FAULTS = Faults(seed=1, until_ms=YEAR_MS)
SAVES = CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS)
START_MS = 20 * SECOND_MS
SPOT = fleet_of(
    pool("s", nodes=3, gpus=1, market=Market.SPOT, interruptions_per_million_hours=100_000)
)


def run(faults: Faults | None, *specs: JobSpec, fleet: Fleet | None = None) -> list[Event]:
    """Every event of a run of jobs that are all submitted at once."""
    events = [JobSubmitted(at_ms=0, job_id=s.name, spec=s, priority=0) for s in specs]
    scenario = Scenario(
        fleet=fleet or fleet_of(pool("a", gpus=1)), tenants=(queue(),), events=events, faults=faults
    )
    simulation = Simulation(scenario, check=require_valid)
    return [e for step in simulation.steps() for e in (*step.events, *step.committed)]


def times_of(events: Sequence[Event], *kinds: type[Event]) -> list[tuple[int, type[Event]]]:
    return [(event.at_ms, type(event)) for event in events if isinstance(event, kinds)]


def series(*changes: tuple[int, int], end_ms: int = 10 * HOUR_MS) -> SpotReclaims:
    return SpotReclaims(
        series={"s": PoolSeries(changes=changes, end_ms=end_ms)}, notice_ms=MINUTE_MS
    )


# -- when outages come -------------------------------------------------------------------------------


def test_nodes_are_lost_and_repaired_at_the_given_rates() -> None:
    losses = NodeLosses(per_million_hours=10_000, mean_repair_ms=10 * HOUR_MS)
    fleet = fleet_of(pool("a", nodes=200))
    outages = list(replace(NO_FAULTS, node_losses=losses).outages(fleet))
    node_hours = 200 * 8760
    assert len(outages) == pytest.approx(node_hours / 100 * (100 / 110), rel=0.03)
    repair_ms = sum(one.back_at_ms - one.lost_at_ms for one in outages) / len(outages)
    assert repair_ms == pytest.approx(10 * HOUR_MS, rel=0.03)


def test_outages_are_in_order_and_those_of_one_node_never_overlap() -> None:
    faults = replace(
        NO_FAULTS,
        node_losses=NodeLosses(per_million_hours=100_000),
        spot_reclaims=SpotReclaims(),
    )
    fleet = fleet_of(
        pool("a", nodes=5),
        pool("s", nodes=5, market=Market.SPOT, interruptions_per_million_hours=500_000),
    )
    outages = list(islice(faults.outages(fleet), 2_000))
    assert [one.at_ms for one in outages] == sorted(one.at_ms for one in outages)
    for node in fleet.nodes:
        own = [one for one in outages if one.node == node]
        assert len(own) > 5
        assert all(one.at_ms <= one.lost_at_ms < one.back_at_ms for one in own)
        assert all(a.back_at_ms < b.at_ms for a, b in pairwise(own))


def test_a_node_has_the_same_outages_in_any_fleet() -> None:
    faults = replace(NO_FAULTS, node_losses=NodeLosses(per_million_hours=100_000))
    small, large = (fleet_of(pool("a", nodes=nodes)) for nodes in (1, 9))
    alone = list(faults.outages(small))
    among = [one for one in faults.outages(large) if one.node.id == "a-0001"]
    assert alone == among and alone


def test_another_seed_gives_other_outages() -> None:
    faults = replace(NO_FAULTS, node_losses=NodeLosses(per_million_hours=100_000))
    fleet = fleet_of(pool("a"))
    assert list(faults.outages(fleet)) != list(replace(faults, seed=2).outages(fleet))


def test_no_outage_begins_after_the_end() -> None:
    faults = Faults(seed=1, until_ms=HOUR_MS, node_losses=NodeLosses(per_million_hours=20_000_000))
    outages = list(faults.outages(fleet_of(pool("a", nodes=9))))
    assert outages and all(one.at_ms < HOUR_MS for one in outages)


def test_a_series_gives_the_number_of_nodes() -> None:
    faults = replace(
        NO_FAULTS, spot_reclaims=series((0, 3), (HOUR_MS, 1), (2 * HOUR_MS, 2), end_ms=4 * HOUR_MS)
    )
    outages = list(faults.outages(SPOT))
    assert sorted((one.at_ms, one.lost_at_ms, one.back_at_ms) for one in outages) == [
        (HOUR_MS - MINUTE_MS, HOUR_MS, 2 * HOUR_MS),
        (HOUR_MS - MINUTE_MS, HOUR_MS, 4 * HOUR_MS),
    ]
    assert len({one.node.id for one in outages}) == 2


def test_a_series_may_begin_without_nodes_and_change_within_a_notice() -> None:
    faults = replace(
        NO_FAULTS,
        spot_reclaims=series((0, 0), (HOUR_MS, 3), (HOUR_MS + 1, 0), end_ms=2 * HOUR_MS),
    )
    node = min(faults.outages(SPOT), key=lambda one: (one.node.id, one.at_ms)).node
    own = [one for one in faults.outages(SPOT) if one.node == node]
    assert [(one.at_ms, one.lost_at_ms, one.back_at_ms) for one in own] == [
        (0, 0, HOUR_MS),
        (HOUR_MS, HOUR_MS + 1, 2 * HOUR_MS),
    ]


def test_a_series_of_another_size_is_scaled() -> None:
    half = PoolSeries(changes=((0, 8),), end_ms=HOUR_MS, full=16)
    assert list(half.nodes_at_changes(10)) == [(0, 5), (HOUR_MS, 10)]


def test_a_reclaim_is_a_notice_a_loss_and_a_return() -> None:
    node = Node(id="n", pool="s")
    outage = NodeOutage(at_ms=1, node=node, lost_at_ms=5, back_at_ms=9)
    assert list(outage.events()) == [
        SpotNotice(at_ms=1, node="n", source="simulated", kind=NoticeKind.TERMINATE, ends_at_ms=5),
        NodeLost(at_ms=5, node="n"),
        NodeAdded(at_ms=9, node=node),
    ]
    assert [type(e) for e in replace(outage, at_ms=5).events()] == [NodeLost, NodeAdded]


def test_outages_occur_only_while_other_events_are_due() -> None:
    node = Node(id="n", pool="s")
    outages = [
        NodeOutage(at_ms=at_ms, node=node, lost_at_ms=at_ms, back_at_ms=at_ms + 1)
        for at_ms in (5, 10, 15)
    ]
    clock = VirtualClock([NodeLost(at_ms=12, node="x")], outages)
    seen = []
    while clock.advance():
        seen += [(clock.now_ms, type(what)) for what in iter(clock.next_due, None)]
    assert seen == [(5, NodeOutage), (10, NodeOutage), (12, NodeLost)]


# -- what they cost ----------------------------------------------------------------------------------


def reclaimed_once(saves_at_notice: bool, checkpoint: CheckpointPolicy) -> list[Event]:
    """A job of two hours on a node that is lost from 1:15 to 3:00."""
    quarter = 15 * MINUTE_MS
    reclaims = series((0, 1), (5 * quarter, 0), (12 * quarter, 1))
    faults = replace(NO_FAULTS, spot_reclaims=replace(reclaims, saves_at_notice=saves_at_notice))
    fleet = fleet_of(pool("s", gpus=1, market=Market.SPOT))
    spec = job("train", hours=2, markets=(Market.SPOT,), checkpoint=checkpoint)
    return run(faults, spec, fleet=fleet)


def test_work_since_the_last_checkpoint_is_repeated_after_the_restart_time() -> None:
    (done,) = times_of(reclaimed_once(False, SAVES), AttemptSucceeded)
    saved_ms = HOUR_MS
    assert done[0] == 3 * HOUR_MS + START_MS + SAVES.restart_ms + 2 * HOUR_MS - saved_ms


def test_with_a_checkpoint_at_the_notice_only_work_after_it_is_lost() -> None:
    events = reclaimed_once(True, SAVES)
    (done,) = times_of(events, AttemptSucceeded)
    notice_ms = 75 * MINUTE_MS - MINUTE_MS
    assert (notice_ms, CheckpointSaved) in times_of(events, CheckpointSaved)
    saved_ms = notice_ms - START_MS
    assert done[0] == 3 * HOUR_MS + START_MS + SAVES.restart_ms + 2 * HOUR_MS - saved_ms


def test_a_job_that_never_saves_cannot_save_at_the_notice() -> None:
    never = CheckpointPolicy(restart_ms=MINUTE_MS)
    events = reclaimed_once(True, never)
    (done,) = times_of(events, AttemptSucceeded)
    assert times_of(events, CheckpointSaved) == []
    assert done[0] == 3 * HOUR_MS + START_MS + MINUTE_MS + 2 * HOUR_MS


def test_a_job_that_never_ran_has_no_restart_time() -> None:
    reclaims = series((0, 1), (10 * SECOND_MS, 0), (HOUR_MS, 1))
    fleet = fleet_of(pool("s", gpus=1, market=Market.SPOT))
    spec = job("train", hours=1, markets=(Market.SPOT,), checkpoint=SAVES)
    events = run(
        replace(NO_FAULTS, spot_reclaims=replace(reclaims, notice_ms=0)), spec, fleet=fleet
    )
    (done,) = times_of(events, AttemptSucceeded)
    assert done[0] == HOUR_MS + START_MS + HOUR_MS


def test_every_attempt_fails_when_the_chance_is_one() -> None:
    spec = job("failing", hours=1, retries=2)
    events = run(replace(NO_FAULTS, failure_chance=1.0), spec)
    assert [type(event) for event in events if isinstance(event, AttemptFailed)] == [
        AttemptFailed
    ] * 3
    assert times_of(events, AttemptSucceeded) == []


def test_a_failed_job_releases_its_resources() -> None:
    faults = replace(NO_FAULTS, failure_chance=1.0)
    first, second = job("first", hours=1), job("second", hours=1)
    events = run(faults, first, second)
    assert len(times_of(events, AttemptFailed)) == 2
    assert len(times_of(events, AttemptStarted)) == 2


def test_failures_are_spread_over_the_whole_run() -> None:
    fates = [replace(NO_FAULTS, failure_chance=1.0).of_attempt(f"j{n}", 1, 0) for n in range(1_000)]
    times = [fate.fails_at_milli for fate in fates if fate.fails_at_milli is not None]
    assert len(times) == 1_000
    assert sum(times) / 1_000 == pytest.approx(500, rel=0.05)
    assert min(times) < 10 and max(times) > 990


def test_a_failed_attempt_keeps_its_checkpoints() -> None:
    faults = replace(NO_FAULTS, failure_chance=0.5)
    spec = job(
        "train", hours=4, retries=99, checkpoint=CheckpointPolicy(interval_ms=10 * MINUTE_MS)
    )
    events = run(faults, replace(spec, name="j4"))
    failed = times_of(events, AttemptFailed)
    (done,) = times_of(events, AttemptSucceeded)
    assert failed
    attempts = len(failed) + 1
    assert done[0] < 4 * HOUR_MS + attempts * (START_MS + 10 * MINUTE_MS)


def test_a_straggler_takes_longer_and_saves_less_work_in_the_same_time() -> None:
    slow = replace(NO_FAULTS, stragglers=Stragglers(chance=1.0))
    slow_milli = slow.of_attempt("train", 1, START_MS).slow_milli
    assert MILLI < slow_milli <= 3 * MILLI
    for checkpoint in (CheckpointPolicy(), SAVES):
        (done,) = times_of(
            run(slow, job("train", hours=2, checkpoint=checkpoint)), AttemptSucceeded
        )
        assert done[0] == pytest.approx(START_MS + 2 * HOUR_MS * slow_milli / MILLI, abs=20)


def test_slow_starts_have_the_given_median_and_tail() -> None:
    starts = SlowStarts(median_ms=30_000, p90_ms=300_000, max_ms=900_000)
    faults = replace(NO_FAULTS, slow_starts=starts)
    delays = sorted(faults.of_attempt(f"j{n}", 1, 0).start_ms for n in range(4_000))
    assert delays[2_000] == pytest.approx(30_000, rel=0.1)
    assert delays[3_600] == pytest.approx(300_000, rel=0.15)
    assert delays[-1] == 900_000
    ((started, _),) = times_of(run(faults, job("train", hours=1)), AttemptStarted)
    assert started == faults.of_attempt("train", 1, 0).start_ms


def test_faults_of_attempts_are_independent() -> None:
    troubled = replace(NO_FAULTS, failure_chance=0.5, stragglers=Stragglers(chance=0.5))
    calmer = replace(troubled, stragglers=None)
    for number in range(50):
        one = troubled.of_attempt(f"j{number}", 1, 0)
        assert one.fails_at_milli == calmer.of_attempt(f"j{number}", 1, 0).fails_at_milli
    assert NO_FAULTS.of_attempt("train", 1, 7).start_ms == 7


def test_without_faults_no_attempt_fails() -> None:
    specs = [job(f"j{number}", hours=1) for number in range(3)]
    assert run(None, *specs) == run(NO_FAULTS, *specs)


def test_an_outage_of_a_lost_node_is_ignored() -> None:
    fleet = fleet_of(pool("a", nodes=2, gpus=1))
    faults = Faults(
        seed=3, until_ms=20 * HOUR_MS, node_losses=NodeLosses(per_million_hours=500_000)
    )
    lost = [NodeLost(at_ms=0, node="a-0001")]
    spec = job("train", hours=9, retries=9)
    submitted = JobSubmitted(at_ms=0, job_id="train", spec=spec, priority=0)
    scenario = Scenario(
        fleet=fleet,
        tenants=(queue(),),
        events=[submitted, *lost],
        delays=Delays(start_ms=0),
        faults=faults,
    )
    simulation = Simulation(scenario, check=require_valid)
    for _ in simulation.steps():
        pass
    assert simulation.state.finished == {"train": JobState.SUCCEEDED}
    assert list(simulation.state.pool_of_node) == ["a-0002"]
