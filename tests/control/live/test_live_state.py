"""Timers reconsider deadline jobs on spot pools without any event."""

from __future__ import annotations

from bursar.control.live.live_state import LiveState
from bursar.core.cycle import decide
from bursar.core.order_events import events_for
from bursar.model.event import AttemptAssigned, FleetDeclared, JobSubmitted
from bursar.model.fleet.fleet import Market
from bursar.model.tenants.policy import Policies
from bursar.model.units import HOUR_MS, MINUTE_MS
from tests.support import fleet_of, job, pool, queue

TICK_MS = Policies().spot.tick_ms


def declared() -> LiveState:
    live = LiveState()
    fleet = fleet_of(
        pool("steady", 1, market=Market.ON_DEMAND, usd_per_node_hour=30),
        pool("spot", 0, market=Market.SPOT, usd_per_node_hour=10),
    )
    live.apply([FleetDeclared(at_ms=0, fleet=fleet, tenants=(queue(),), policies=Policies())])
    return live


def timed(deadline_ms: int) -> JobSubmitted:
    spec = job(
        "timed",
        gpus=8,
        hours=2,
        markets=(Market.SPOT, Market.ON_DEMAND),
        deadline_ms=deadline_ms,
    )
    return JobSubmitted(at_ms=MINUTE_MS, job_id="timed", spec=spec, priority=0)


def test_a_timer_is_due_at_each_tick_until_the_deadline() -> None:
    live = declared()
    assert live.next_timer_ms() is None
    live.apply([timed(9 * HOUR_MS)])
    assert live.timer_due(TICK_MS + 7)
    assert live.next_timer_ms() == 2 * TICK_MS
    assert not live.timer_due(2 * TICK_MS - 1)
    assert live.timer_due(2 * TICK_MS)
    assert not live.timer_due(2 * TICK_MS), "one look for each tick"
    live.timer_due(9 * HOUR_MS)
    assert live.next_timer_ms() is None


def test_jobs_without_a_deadline_set_no_timer() -> None:
    live = declared()
    spec = job("plain", gpus=8, hours=2, markets=(Market.SPOT, Market.ON_DEMAND))
    live.apply([JobSubmitted(at_ms=MINUTE_MS, job_id="plain", spec=spec, priority=0)])
    assert live.next_timer_ms() is None


def test_a_deadline_job_is_moved_by_time_alone() -> None:
    live = declared()
    live.apply([timed(9 * HOUR_MS)])
    began_ms = None
    for _ in range(9 * HOUR_MS // TICK_MS):
        now_ms = live.next_timer_ms()
        if now_ms is None or began_ms is not None:
            break
        assert live.timer_due(now_ms)
        for decision in decide(live.state, now_ms):
            events = events_for(decision, now_ms)
            if any(isinstance(event, AttemptAssigned) for event in events):
                began_ms = now_ms
            live.apply(events)
    assert began_ms is not None and HOUR_MS < began_ms < 7 * HOUR_MS
