"""Timers derived from a state equal those that its events set."""

from __future__ import annotations

from dataclasses import replace

from bursar.core.state.run_time_model import LEAST_ENDED
from bursar.core.state.timers import Timers, next_outlasting_ms
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import (
    OrderPolicy,
    OrderTerm,
    Policies,
    PreemptionLimits,
    PreemptionPolicy,
    WithinQueue,
)
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, state_of
from tests.support.fleets import MAIN_QUEUE

POLICIES = Policies(
    order=OrderPolicy(
        terms=(OrderTerm.LEAST_EXPECTED, OrderTerm.LEAST_ATTAINED, OrderTerm.DEADLINE),
        aging_step_ms=7 * MINUTE_MS,
        attained_levels_gpu_ms=(HOUR_MS, 50 * HOUR_MS),
    ),
    preemption=PreemptionLimits(minimum_run_ms=90 * MINUTE_MS),
)


def known(spec: JobSpec) -> JobSpec:
    """A job with a predicted run time: similar jobs ended before."""
    return replace(spec, similarity_keys=("team",))


def busy() -> SchedulerHarness:
    yields = PreemptionPolicy(within_queue=WithinQueue.LATER_IN_ORDER)
    tenants = (queue(MAIN_QUEUE, preemption=yields),)
    world = SchedulerHarness(state_of(fleet_of(pool("a100", 2)), tenants, POLICIES))
    for name in (f"before-{number}" for number in range(LEAST_ENDED)):
        world.submit(known(job(name, gpus=8)))
        world.cycle()
        world.start_all().advance(MINUTE_MS).finish(name)
    world.submit(
        known(job("limited", gpus=4, max_hours=3)),
        job("dear", gpus=4, max_cost_micro_usd=20 * USD_MICRO, hours=1),
        job("plain", gpus=8, hours=2),
        job("urgent", gpus=8, hours=1, deadline_ms=9 * HOUR_MS),
        job("patient", gpus=8),
    )
    world.cycle()
    return world.start_all()


def set_by_events(world: SchedulerHarness) -> Timers:
    """The timers after applying all events."""
    state = state_of(fleet_of(pool("a100", 2)), tuple(world.state.tenants.values()), POLICIES)
    timers = Timers(state)
    appliers = timers.appliers()
    for event in world.log:
        state.apply(event)
        if (set_timers := appliers.get(type(event))) is not None:
            set_timers(event)
    timers.due(world.now_ms)
    return timers


def times_of(timers: Timers, end_ms: int) -> list[int]:
    """The times at which timers are due."""
    times: list[int] = []
    while (next_ms := timers.next_ms()) <= end_ms:
        if timers.due(next_ms):
            times.append(next_ms)
    return times


def test_timers_of_a_state_equal_those_set_by_its_events() -> None:
    world = busy()
    for _ in range(40):
        # From the first limit on, timers are always due: the attempt must stop.
        limits = [limit_ms for limit_ms, _ in world.state.limits]
        end_ms = min([world.now_ms + 24 * HOUR_MS, *limits])
        found = times_of(Timers(world.state, world.now_ms), end_ms)
        assert found == times_of(set_by_events(world), end_ms)
        world.advance(11 * MINUTE_MS)
        world.cycle()


def test_running_and_waiting_jobs_have_timers() -> None:
    world = busy()
    times = times_of(Timers(world.state, world.now_ms), world.now_ms + 24 * HOUR_MS)
    limited, patient = world.job("limited"), world.job("patient")
    assert limited.limit_at_ms == world.now_ms + 3 * HOUR_MS
    assert next_outlasting_ms(world.state, limited, world.now_ms) in times
    assert limited.limit_at_ms in times
    assert world.job("dear").limit_at_ms in times
    assert patient.submitted_at_ms + 7 * MINUTE_MS in times


def test_a_passed_limit_is_due_until_the_attempt_stops() -> None:
    world = busy()
    timers = Timers(world.state, world.now_ms)
    late_ms = world.now_ms + 48 * HOUR_MS
    assert timers.due(late_ms) and timers.due(late_ms)
    assert timers.next_ms() > late_ms, "a shell that cannot decide does not spin"


def test_time_of_earlier_attempts_brings_the_next_longer_estimate_forward() -> None:
    world = busy()
    first_ms = next_outlasting_ms(world.state, world.job("limited"), world.now_ms)
    waits_ms = first_ms - world.now_ms
    world.cancel("plain").cancel("urgent").cancel("patient")
    world.advance(10 * MINUTE_MS).preempted("limited")
    world.cycle()
    world.start("limited")
    again_ms = next_outlasting_ms(world.state, world.job("limited"), world.now_ms)
    assert again_ms - world.now_ms == waits_ms - 10 * MINUTE_MS
