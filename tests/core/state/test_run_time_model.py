"""Run times predicted from similar jobs, and preemption by them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.core.state.run_time_model import (
    LEAST_ENDED,
    STEPS,
    RunTimeEstimate,
    RunTimeModel,
    SimilarityKey,
    step_begins_ms,
    step_of,
)
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.tenants.policy import Policies, PreemptionLimits, PreemptionPolicy, WithinQueue
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, state_of
from tests.support.jobs import MAIN_QUEUE

ANYONE: tuple[SimilarityKey, ...] = ((),)
ANN: tuple[SimilarityKey, ...] = ((), ("ann",))
BOB: tuple[SimilarityKey, ...] = ((), ("bob",))
NODES = 12


def expect(run_times: RunTimeModel, keys: tuple[SimilarityKey, ...], had_ms: int = 0) -> int:
    run_time_estimate = run_times.estimate(run_times.similar_jobs(keys))
    assert run_time_estimate is not None
    return run_time_estimate.total_ms(had_ms)


def test_the_scale_has_one_step_per_doubling() -> None:
    assert [step_of(s * SECOND_MS) for s in (0, 1, 2, 3, 4, 1023, 1024)] == [0, 1, 2, 2, 3, 10, 11]
    assert step_of(999) == 0
    assert step_of(1 << 60) == STEPS - 1
    for step in range(1, STEPS):
        assert step_of(step_begins_ms(step)) == step
        assert step_of(step_begins_ms(step) - 1) == step - 1


def test_nothing_is_predicted_before_enough_jobs_have_ended() -> None:
    run_times = RunTimeModel()
    for _ in range(LEAST_ENDED - 1):
        run_times.add(run_times.similar_jobs(ANYONE), HOUR_MS)
        assert run_times.estimate(run_times.similar_jobs(ANYONE)) is None
    run_times.add(run_times.similar_jobs(ANYONE), HOUR_MS)
    assert run_times.estimate(run_times.similar_jobs(ANYONE)) is not None


def test_a_user_of_short_jobs_is_expected_to_submit_another() -> None:
    run_times = RunTimeModel()
    for _ in range(200):
        run_times.add(run_times.similar_jobs(ANN), MINUTE_MS)
        run_times.add(run_times.similar_jobs(BOB), 10 * HOUR_MS)
    assert expect(run_times, ANN) < 3 * MINUTE_MS
    assert expect(run_times, BOB) > 20 * MINUTE_MS
    assert expect(run_times, ANN) < expect(run_times, ANYONE) < expect(run_times, BOB)


def test_a_job_that_outlasts_the_short_ones_is_expected_to_be_long() -> None:
    run_times = RunTimeModel()
    for _ in range(300):
        run_times.add(run_times.similar_jobs(ANYONE), MINUTE_MS)
    for _ in range(300):
        run_times.add(run_times.similar_jobs(ANYONE), DAY_MS)
    fresh, old = expect(run_times, ANYONE), expect(run_times, ANYONE, 10 * MINUTE_MS)
    assert fresh < 5 * MINUTE_MS
    assert old > 6 * HOUR_MS


@pytest.mark.parametrize("had_ms", [0, 1, SECOND_MS, 17 * MINUTE_MS, HOUR_MS, 90 * DAY_MS, 1 << 50])
def test_the_expected_run_time_exceeds_the_elapsed_time(had_ms: int) -> None:
    run_times = RunTimeModel()
    for seconds in range(1, 2_000):
        run_times.add(run_times.similar_jobs(ANYONE), seconds * SECOND_MS)
    assert expect(run_times, ANYONE, had_ms) > had_ms


def test_few_observations_are_weighted_with_the_overall_distribution() -> None:
    run_times = RunTimeModel()
    for _ in range(100):
        run_times.add(run_times.similar_jobs(BOB), 10 * HOUR_MS)
    guesses = []
    for _ in range(64):
        run_times.add(run_times.similar_jobs(ANN), MINUTE_MS)
        guesses.append(expect(run_times, ANN))
    assert guesses[0] > 3 * guesses[-1]
    assert guesses[-1] < MINUTE_MS + MINUTE_MS // 2


def test_cached_predictions_are_recomputed_after_enough_new_jobs() -> None:
    run_times = RunTimeModel()
    for _ in range(64):
        run_times.add(run_times.similar_jobs(ANYONE), MINUTE_MS)
    first = run_times.estimate(run_times.similar_jobs(ANYONE))
    run_times.add(run_times.similar_jobs(ANYONE), DAY_MS)
    assert run_times.estimate(run_times.similar_jobs(ANYONE)) is first
    for _ in range(4):
        run_times.add(run_times.similar_jobs(ANYONE), DAY_MS)
    again = run_times.estimate(run_times.similar_jobs(ANYONE))
    assert (
        isinstance(again, RunTimeEstimate)
        and isinstance(first, RunTimeEstimate)
        and again is not first
    )


# -- who yields --------------------------------------------------------------------------------------


def saving(spec: JobSpec, user: str) -> JobSpec:
    return replace(
        spec, similarity_keys=(user,), checkpoint=CheckpointPolicy(interval_ms=10 * MINUTE_MS)
    )


def with_history(limits: PreemptionLimits | None = None) -> SchedulerHarness:
    """Ann's jobs last a minute and Bob's a day; jobs of one queue take turns."""
    turns = PreemptionPolicy(within_queue=WithinQueue.LATER_IN_ORDER)
    policies = Policies(preemption=limits or PreemptionLimits())
    main = replace(queue(MAIN_QUEUE), preemption=turns)
    world = SchedulerHarness(state_of(fleet_of(pool("a100", NODES)), (main,), policies))
    for user, run_ms in (("ann", MINUTE_MS), ("bob", DAY_MS)):
        names = [f"{user}-{number}" for number in range(40)]
        for _ in range(2):
            batch = [names.pop() for _ in range(20)]
            world.submit(*(saving(job(name, gpus=1), user) for name in batch))
            world.cycle()
            world.start_all().advance(run_ms)
            world.finish(*batch)
    return world


def filled_by_bob(world: SchedulerHarness) -> SchedulerHarness:
    world.submit(*(saving(job(f"long-{n}", gpus=8), "bob") for n in range(NODES)))
    world.cycle()
    return world.start_all().advance(HOUR_MS)


def test_of_two_waiting_jobs_the_one_expected_to_be_short_is_first() -> None:
    world = filled_by_bob(with_history(PreemptionLimits(searches_per_cycle=0)))
    world.submit(saving(job("a-long", gpus=8), "bob"), saving(job("z-short", gpus=8), "ann"))
    world.cycle()
    world.advance(1).finish("long-3")
    world.cycle()
    assert world.started_now() == ["z-short"]


def test_a_long_job_yields_to_one_expected_to_need_far_less() -> None:
    world = filled_by_bob(with_history())
    world.submit(saving(job("short", gpus=1), "ann"))
    world.cycle()
    assert len(world.preempted_now()) == 1
    assert world.claimed_now() == ["short"]


def test_no_job_yields_to_one_that_needs_about_as_much() -> None:
    world = filled_by_bob(with_history())
    world.submit(saving(job("as-long", gpus=8, hours=24), "bob"))
    world.cycle()
    assert world.preempted_now() == []


def test_a_job_that_has_run_long_does_not_yield() -> None:
    world = filled_by_bob(with_history(PreemptionLimits(settled_after_ms=HOUR_MS)))
    world.submit(saving(job("short", gpus=1), "ann"))
    world.cycle()
    assert world.preempted_now() == []


def test_a_job_that_holds_much_of_the_pool_does_not_yield() -> None:
    world = filled_by_bob(with_history(PreemptionLimits(turn_part_of_pool=NODES + 1)))
    world.submit(saving(job("short", gpus=1), "ann"))
    world.cycle()
    assert world.preempted_now() == []


def test_a_job_without_checkpoints_does_not_yield() -> None:
    world = with_history()
    world.submit(
        *(replace(job(f"long-{n}", gpus=8), similarity_keys=("bob",)) for n in range(NODES))
    )
    world.cycle()
    world.start_all().advance(HOUR_MS)
    world.submit(saving(job("short", gpus=1), "ann"))
    world.cycle()
    assert world.preempted_now() == []


def test_before_any_job_has_ended_jobs_start_in_order_of_submission() -> None:
    turns = PreemptionPolicy(within_queue=WithinQueue.LATER_IN_ORDER)
    world = SchedulerHarness(
        state_of(fleet_of(pool("a100")), (replace(queue(MAIN_QUEUE), preemption=turns),))
    )
    world.submit(saving(job("first", gpus=8), "bob"))
    world.cycle()
    world.start_all().advance(HOUR_MS)
    world.submit(saving(job("large", gpus=8, hours=9), "bob"), saving(job("small", gpus=8), "ann"))
    world.cycle()
    assert world.preempted_now() == []
    world.finish("first")
    world.cycle()
    assert world.started_now() == ["large"]
