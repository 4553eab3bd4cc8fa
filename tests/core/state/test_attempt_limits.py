"""A job ends when it reaches its run time limit or its cost limit."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Unpack

from bursar.codec import from_text, to_plain
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.core.state.attempt_limits import charged_micro_usd, paid_grace_ms, write_limit
from bursar.core.state.snapshot import from_snapshot, to_snapshot
from bursar.model.decision import StopJob, StopReason
from bursar.model.event import AttemptExpired, FleetDeclared
from bursar.model.jobs.job import JobState
from bursar.model.state_snapshot import StateSnapshot
from bursar.model.tenants.policy import Policies
from bursar.model.units import HOUR_MS, MINUTE_MS, USD_MICRO
from tests.core.small_fleets import one_queue
from tests.support import SchedulerHarness, fleet_of, job, pool, queue
from tests.support.fleets import MAIN_QUEUE, state_of
from tests.support.jobs import JobOptions
from tests.support.state_audit import check_thoroughly, state_faults

DOLLAR = USD_MICRO
"""A node costs $16 an hour, one of its 8 GPUs $2."""


def stopped(world: SchedulerHarness) -> list[StopJob]:
    found = decide(world.state, world.now_ms)
    assert not check_thoroughly(world.state, found, world.now_ms)
    return [order for order in found if isinstance(order, StopJob)]


def running(**terms: Unpack[JobOptions]) -> SchedulerHarness:
    world = one_queue(1)
    world.submit(job("a", gpus=8, **terms))
    world.cycle()
    return world.start_all()


def test_a_job_is_stopped_at_its_cost_limit() -> None:
    world = running(max_cost_micro_usd=4 * DOLLAR)
    world.advance(15 * MINUTE_MS - 1)
    assert stopped(world) == []
    world.advance(1)
    order = StopJob(
        job_id="a", attempt=1, reason=StopReason.COST_LIMIT, charged_micro_usd=4 * DOLLAR
    )
    assert stopped(world) == [order]
    assert write_limit(world.job("a"), world.now_ms) == (
        "reached its cost ceiling (max_cost) of $4.00: charged $4.00"
    )
    assert events_for(order, world.now_ms) == (
        AttemptExpired(
            at_ms=world.now_ms,
            job_id="a",
            attempt=1,
            why="cost-limit",
            charged_micro_usd=4 * DOLLAR,
        ),
    )
    world.cycle()
    assert world.state_of("a") is JobState.EXPIRING
    world.preempted("a")
    assert world.state_of("a") is JobState.FAILED


def test_cost_counts_from_the_assignment() -> None:
    world = one_queue(1)
    world.submit(job("a", gpus=8, max_cost_micro_usd=4 * DOLLAR))
    world.cycle()
    world.advance(5 * MINUTE_MS).start_all().advance(10 * MINUTE_MS)
    assert [order.reason for order in stopped(world)] == [StopReason.COST_LIMIT]


def test_all_attempts_count_together() -> None:
    world = running(max_cost_micro_usd=4 * DOLLAR, retries=1)
    world.advance(10 * MINUTE_MS).fail("a")
    assert charged_micro_usd(world.job("a"), world.now_ms) == 16 * DOLLAR // 6
    world.advance(HOUR_MS)
    world.cycle()
    world.start_all().advance(5 * MINUTE_MS - 1)
    assert stopped(world) == []
    world.advance(1)
    assert [order.attempt for order in stopped(world)] == [2]


def test_an_attempt_that_starts_at_its_limit_is_stopped_at_once() -> None:
    world = running(max_cost_micro_usd=4 * DOLLAR, retries=1)
    world.advance(HOUR_MS).fail("a")
    world.cycle()
    world.start_all()
    assert [order.reason for order in stopped(world)] == [StopReason.COST_LIMIT]
    assert not state_faults(world.state)


def test_the_first_of_both_limits_counts() -> None:
    dear = running(max_cost_micro_usd=4 * DOLLAR, max_hours=1).advance(15 * MINUTE_MS)
    assert [order.reason for order in stopped(dear)] == [StopReason.COST_LIMIT]
    cheap = running(max_cost_micro_usd=40 * DOLLAR, max_hours=1).advance(HOUR_MS)
    assert [order.reason for order in stopped(cheap)] == [StopReason.TIME_LIMIT]
    assert write_limit(cheap.job("a"), cheap.now_ms) == (
        "reached its maximum run time (max_hours) of 1 h"
    )


def test_the_grace_period_is_paid_from_the_cost_limit() -> None:
    world = one_queue(1)
    spec = replace(job("a", gpus=8, max_cost_micro_usd=4 * DOLLAR), grace_ms=3 * MINUTE_MS)
    world.submit(spec)
    world.cycle()
    world.start_all().advance(12 * MINUTE_MS - 1)
    assert stopped(world) == []
    world.advance(1)
    world.cycle()
    assert [order.charged_micro_usd for order in world.decided(StopJob)] == [16 * DOLLAR // 5]
    assert paid_grace_ms(world.job("a"), world.now_ms) == 3 * MINUTE_MS
    world.advance(4 * MINUTE_MS)
    assert paid_grace_ms(world.job("a"), world.now_ms) == 0


def test_a_long_grace_period_uses_at_most_half_of_the_affordable_time() -> None:
    world = one_queue(1)
    world.submit(replace(job("a", gpus=8, max_cost_micro_usd=4 * DOLLAR), grace_ms=HOUR_MS))
    world.cycle()
    world.start_all().advance(15 * MINUTE_MS // 2 - 1)
    assert stopped(world) == []
    world.advance(1)
    world.cycle()
    assert world.decided(StopJob)
    assert paid_grace_ms(world.job("a"), world.now_ms) == 15 * MINUTE_MS // 2
    assert not state_faults(world.state)


def test_a_job_over_its_run_time_limit_has_its_full_grace_period() -> None:
    world = running(max_cost_micro_usd=40 * DOLLAR, max_hours=1).advance(HOUR_MS)
    world.cycle()
    assert world.state_of("a") is JobState.EXPIRING
    assert paid_grace_ms(world.job("a"), world.now_ms) is None


def test_on_a_free_pool_no_cost_limit_is_reached() -> None:
    world = SchedulerHarness(state_of(fleet_of(pool("free", 1, usd_per_node_hour=0))))
    world.submit(job("a", gpus=8, max_cost_micro_usd=1))
    world.cycle()
    world.start_all().advance(100 * HOUR_MS)
    assert stopped(world) == []


def test_a_snapshot_has_the_charges_of_a_job_and_an_older_one_has_none() -> None:
    fleet, tenants = fleet_of(pool("a100", 1)), (queue(MAIN_QUEUE),)
    world = SchedulerHarness(state_of(fleet, tenants))
    world.submit(job("a", gpus=8, max_cost_micro_usd=4 * DOLLAR, retries=1))
    world.cycle()
    world.start_all().advance(10 * MINUTE_MS).fail("a")
    declared = FleetDeclared(at_ms=0, fleet=fleet, tenants=tenants, policies=Policies())
    plain = to_plain(to_snapshot(world.state, declared, world.now_ms))
    again = from_snapshot(from_text(StateSnapshot, json.dumps(plain)))
    assert again.jobs["a"].charged_micro_usd == world.job("a").charged_micro_usd > 0
    del plain["jobs"][0]["charged_micro_usd"]
    del plain["jobs"][0]["spec"]["max_cost_micro_usd"]
    older = from_snapshot(from_text(StateSnapshot, json.dumps(plain)))
    assert older.jobs["a"].charged_micro_usd == 0
    assert older.jobs["a"].spec.max_cost_micro_usd is None
