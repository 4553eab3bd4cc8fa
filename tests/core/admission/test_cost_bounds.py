"""The maximum cost of a job, and its remaining time under a cost limit when prices change."""

from __future__ import annotations

from dataclasses import replace

from bursar.core.admission.eligible_pools import cost_of_ms, dearest_hourly_micro_usd
from bursar.core.state.timers import Timers
from bursar.model.event import PriceChanged
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import Constraints, JobSpec
from bursar.model.units import HOUR_MS, USD_MICRO
from tests.support import SchedulerHarness, fleet_of, job, pool, queue, state_of, tenant
from tests.support.state_audit import state_faults

CHEAP = pool("cheap", gpus=8, usd_per_node_hour=8.0)
DEAR = pool("dear", gpus=8, usd_per_node_hour=16.0)
SPOT = pool("spot", gpus=8, usd_per_node_hour=80.0, market=Market.SPOT)


def harness() -> SchedulerHarness:
    tenants = (tenant("acme"), queue("research", "acme"))
    return SchedulerHarness(state_of(fleet_of(CHEAP, DEAR, SPOT), tenants), now_ms=HOUR_MS)


def ceiling(usd: int) -> JobSpec:
    return replace(job("a", gpus=8, hours=9), max_cost_micro_usd=usd * USD_MICRO)


def test_the_most_expensive_pool_that_fits_counts() -> None:
    state = harness().state
    half = dearest_hourly_micro_usd(job("a", gpus=4), state)
    assert 8 * USD_MICRO <= half <= 8 * USD_MICRO + 1
    anywhere = Constraints(markets=(Market.OWNED, Market.SPOT))
    risky = replace(job("a", gpus=4), constraints=anywhere)
    assert 40 * USD_MICRO <= dearest_hourly_micro_usd(risky, state) <= 40 * USD_MICRO + 1


def test_a_gang_costs_all_its_tasks() -> None:
    state = harness().state
    assert dearest_hourly_micro_usd(job("a", gpus=1, tasks=3), state) == 3 * (2 * USD_MICRO + 1)


def test_partial_time_is_rounded_up() -> None:
    assert cost_of_ms(USD_MICRO, 1) == 1, "a quarter of a micro-dollar"
    assert cost_of_ms(USD_MICRO, HOUR_MS) == USD_MICRO


def test_a_higher_price_reaches_the_limit_sooner() -> None:
    """$16 at $8 an hour last two hours; after one of them at $16, half an hour more."""
    here = harness()
    here.submit(ceiling(16))
    here.cycle()
    here.start_all()
    assert here.job("a").limit_at_ms == 3 * HOUR_MS
    here.advance(HOUR_MS)
    dearer = PriceChanged(at_ms=here.now_ms, pool="cheap", node_micro_usd_per_hour=16 * USD_MICRO)
    timers = Timers(here.state, here.now_ms)
    here.apply(dearer)
    assert here.job("a").limit_at_ms == here.now_ms + HOUR_MS // 2
    assert timers.next_ms() == 2 * HOUR_MS + HOUR_MS // 2
    assert not state_faults(here.state)
    placement = here.placement_of("a")
    assert placement.micro_usd_per_hour == 8 * USD_MICRO, "what was promised stays as it was"


def test_a_lower_price_reaches_the_limit_later() -> None:
    here = harness()
    here.submit(ceiling(16))
    here.cycle()
    here.start_all()
    here.advance(HOUR_MS)
    price = 2 * USD_MICRO
    here.apply(PriceChanged(at_ms=here.now_ms, pool="cheap", node_micro_usd_per_hour=price))
    assert here.job("a").limit_at_ms == here.now_ms + 4 * HOUR_MS
