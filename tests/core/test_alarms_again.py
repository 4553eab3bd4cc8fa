"""Alarms that are read off a state are those that its events would have set."""

from __future__ import annotations

from dataclasses import replace

from bursar.core.alarms import (
    NEVER_MS,
    Wake,
    next_outlasting_ms,
    still_matters,
    wake_again,
    wakes_after,
)
from bursar.core.alarms_again import wakes_from
from bursar.core.experience import LEAST_ENDED
from bursar.model.job import JobSpec, JobState
from bursar.model.policy import (
    OrderPolicy,
    OrderTerm,
    Policies,
    PreemptionLimits,
    PreemptionPolicy,
    WithinQueue,
)
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from bursar.testing import Stage, fleet_of, job, pool, queue, state_of
from bursar.testing.worlds import MAIN_QUEUE

POLICIES = Policies(
    order=OrderPolicy(
        terms=(OrderTerm.LEAST_EXPECTED, OrderTerm.LEAST_ATTAINED, OrderTerm.DEADLINE),
        aging_step_ms=7 * MINUTE_MS,
        attained_levels_gpu_ms=(HOUR_MS, 50 * HOUR_MS),
    ),
    preemption=PreemptionLimits(minimum_run_ms=90 * MINUTE_MS),
)


def known(spec: JobSpec) -> JobSpec:
    """One of which something can be expected: jobs like it came before."""
    return replace(spec, alike=("team",))


def busy() -> Stage:
    yields = PreemptionPolicy(within_queue=WithinQueue.LATER_IN_ORDER)
    tenants = (queue(MAIN_QUEUE, preemption=yields),)
    world = Stage(state_of(fleet_of(pool("a100", 2)), tenants, POLICIES))
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


def set_by_events(world: Stage) -> set[Wake]:
    """Every alarm that a shell which saw all events would still wait for."""
    twin = Stage(state_of(fleet_of(pool("a100", 2)), tuple(world.state.tenants.values()), POLICIES))
    coming: list[Wake] = []
    for event in world.log:
        twin.apply(event)
        coming += wakes_after(twin.state, event)
    found: set[Wake] = set()
    while coming:
        wake = coming.pop()
        if wake.at_ms > world.now_ms:
            found.add(wake)
        elif (again := wake_again(twin.state, wake)) is not None:
            coming.append(again)
    return {one for one in found if still_matters(twin.state, one, someone_waits=True)}


def test_at_any_moment_the_alarms_to_come_are_the_same() -> None:
    world = busy()
    for _ in range(40):
        found = wakes_from(world.state, world.now_ms)
        matter = {one for one in found if still_matters(world.state, one, someone_waits=True)}
        assert matter == set_by_events(world)
        world.advance(11 * MINUTE_MS)


def test_who_waits_and_who_runs_both_have_some() -> None:
    world = busy()
    found = wakes_from(world.state, world.now_ms)
    told = {world.state_of(one.job_id) for one in found}
    assert told == {JobState.RUNNING, JobState.QUEUED}
    limit_ms = world.job("limited").limit_at_ms
    assert limit_ms == world.now_ms + 3 * HOUR_MS
    assert next_outlasting_ms(world.state, world.job("limited"), world.now_ms) != NEVER_MS
    assert Wake(at_ms=limit_ms, job_id="limited", attempt=1) in found
    ceiling_ms = world.job("dear").limit_at_ms
    assert Wake(at_ms=ceiling_ms or 0, job_id="dear", attempt=1) in found
