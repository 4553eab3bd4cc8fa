"""Cost estimates agree with the bill and never fall when run time or price rise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.estimates.estimate import (
    CostEstimate,
    EstimateRequest,
    NotEstimated,
    PoolOffer,
    estimate,
    estimate_all,
)
from bursar.accounting.estimates.price_path import PricePath
from bursar.accounting.estimates.run_time import RunTime, user_estimate
from bursar.model.event import FleetDeclared, JobSubmitted, LoggedEvent, PriceChanged
from bursar.model.fleet.fleet import Fleet, Market, Pool
from bursar.model.fleet.price import SpotPoint
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, write_duration
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, gang, group, job, mig_job, mps_job, pool, queue
from tests.support.book_views import by_job, replay
from tests.support.fleets import MAIN_QUEUE

NOW_MS = 90 * DAY_MS


def spot_pool(**changed: Any) -> Pool:
    fleet = fleet_of(
        pool(
            "spot",
            market=Market.SPOT,
            usd_per_node_hour=8.0,
            interruptions_per_million_hours=50_000,
        )
    )
    return replace(fleet.pools[0], **changed)


def known_run_time(run_ms: int) -> RunTime:
    return RunTime(p50_ms=run_ms, p90_ms=run_ms, basis=f"runs {write_duration(run_ms)}")


def estimated(request: EstimateRequest, offer: PoolOffer) -> CostEstimate:
    result = estimate(request, offer, NOW_MS)
    assert isinstance(result, CostEstimate), result
    return result


def submitted(spec: JobSpec) -> JobSubmitted:
    return JobSubmitted(at_ms=0, job_id="j", spec=spec, priority=0)


def billed(fleet: Fleet, spec: JobSpec, run_ms: int, delays: Delays) -> int:
    """What the ledger bills for one uninterrupted job."""
    scenario = Scenario(
        fleet=fleet,
        tenants=(queue(MAIN_QUEUE),),
        events=(submitted(spec),),
        run_ms={"j": run_ms},
        delays=delays,
    )
    events: list[LoggedEvent] = [
        FleetDeclared(at_ms=0, fleet=fleet, tenants=scenario.tenants, policies=Policies())
    ]
    for step in Simulation(scenario).steps():
        events += [*step.events, *step.committed]
    return by_job(replay(events))["j"]


# -- the bill ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        job(gpus=8),
        job(gpus=2, tasks=3),
        job(gpus=8, tasks=2),
        job(gpus=1, cpu=60),
        job(gpus=0, cpu=7, memory_gib=100),
        mig_job(profile="3g.40gb"),
        mps_job(percent=30),
        gang("mixed", group("head", gpus=0, cpu=10), group("work", gpus=3, tasks=2)),
    ],
    ids=lambda spec: f"{spec.name}-{spec.groups[0].count}x{spec.groups[0].gpu}",
)
def test_an_uninterrupted_run_at_a_fixed_price_costs_what_was_estimated(spec: JobSpec) -> None:
    fleet = fleet_of(pool("a100", nodes=2, usd_per_node_hour=13.37))
    run_ms, start_ms = 5 * HOUR_MS + 1_234_567, 20 * SECOND_MS
    request = EstimateRequest(spec=spec, run=known_run_time(run_ms), start_ms=start_ms)
    result = estimated(request, PoolOffer(pool=fleet.pools[0]))
    bill = billed(fleet, spec, run_ms, Delays(start_ms=start_ms, stop_ms=0))
    assert result.p50_micro_usd == result.p90_micro_usd == pytest.approx(bill, abs=20), (
        "20 postings"
    )
    assert result.p50_ms == run_ms + start_ms and result.warnings == ()


@given(
    gpus=st.integers(1, 8),
    run_ms=st.integers(SECOND_MS, 60 * HOUR_MS),
    price=st.integers(1, 200_000_000),
)
def test_estimate_and_bill_agree_for_any_price_and_run_time(
    gpus: int, run_ms: int, price: int
) -> None:
    fleet = fleet_of(pool("a100"))
    fleet = replace(fleet, pools=(replace(fleet.pools[0], node_micro_usd_per_hour=price),))
    result = estimated(
        EstimateRequest(spec=job(gpus=gpus), run=known_run_time(run_ms)),
        PoolOffer(pool=fleet.pools[0]),
    )
    bill = billed(fleet, job(gpus=gpus), run_ms, Delays(start_ms=0, stop_ms=0))
    assert abs(result.p50_micro_usd - bill) <= 2 + run_ms // HOUR_MS, "a micro-dollar an hour"


# -- monotonicity --------------------------------------------------------------------------------------

prices = st.lists(st.integers(1_000_000, 20_000_000), min_size=2, max_size=30)


@st.composite
def cases(draw: st.DrawFn) -> tuple[EstimateRequest, PoolOffer]:
    half = draw(st.integers(MINUTE_MS, 30 * HOUR_MS))
    run = RunTime(p50_ms=half, p90_ms=half + draw(st.integers(0, 10 * HOUR_MS)), basis="drawn")
    saving = CheckpointPolicy(
        interval_ms=draw(st.one_of(st.none(), st.integers(MINUTE_MS, 4 * HOUR_MS))),
        restart_ms=draw(st.integers(0, 20 * MINUTE_MS)),
    )
    steps = draw(prices)
    history = tuple(
        SpotPoint(at_ms=NOW_MS * number // len(steps), node_micro_usd_per_hour=price)
        for number, price in enumerate(steps)
    )
    rate = draw(st.integers(0, 60_000))
    spec = replace(job(gpus=draw(st.integers(1, 8))), checkpoint=saving)
    offer = PoolOffer(pool=spot_pool(interruptions_per_million_hours=rate), history=history)
    return EstimateRequest(spec=spec, run=run), offer


@given(case=cases(), more_ms=st.integers(0, 20 * HOUR_MS), dearer=st.integers(0, 10**8))
def test_a_longer_run_or_a_higher_price_is_never_cheaper(
    case: tuple[EstimateRequest, PoolOffer], more_ms: int, dearer: int
) -> None:
    request, offer = case
    result = estimate(request, offer, NOW_MS)
    if isinstance(result, NotEstimated):
        return
    assert result.p90_micro_usd >= result.p50_micro_usd and result.p90_ms >= result.p50_ms
    run = request.run
    longer = replace(run, p50_ms=run.p50_ms + more_ms, p90_ms=run.p90_ms + more_ms)
    after = estimate(replace(request, run=longer), offer, NOW_MS)
    if isinstance(after, CostEstimate):
        slack = 10
        assert after.p50_micro_usd >= result.p50_micro_usd - slack
        assert after.p90_micro_usd >= result.p90_micro_usd - slack
    price = offer.pool.node_micro_usd_per_hour + dearer
    risen = replace(offer, pool=replace(offer.pool, node_micro_usd_per_hour=price))
    after = estimated(request, risen)
    assert after.p50_micro_usd >= result.p50_micro_usd
    assert after.p90_micro_usd >= result.p90_micro_usd


@given(case=cases())
def test_estimates_are_deterministic(case: tuple[EstimateRequest, PoolOffer]) -> None:
    assert estimate(*case, NOW_MS) == estimate(*case, NOW_MS)


# -- prices that move ----------------------------------------------------------------------------------


def test_a_constant_price_is_used_unchanged() -> None:
    constant = [SpotPoint(at_ms=n * DAY_MS, node_micro_usd_per_hour=5) for n in range(90)]
    assert PricePath(constant, NOW_MS).paid_ms(7 * HOUR_MS, 900) == 7 * HOUR_MS
    assert PricePath((), NOW_MS).paid_ms(7 * HOUR_MS, 900) == 7 * HOUR_MS


def test_a_price_that_doubles_every_other_day_raises_the_p90() -> None:
    """The price alternates daily between one and two dollars."""
    alternating = [
        SpotPoint(at_ms=n * DAY_MS, node_micro_usd_per_hour=1_000_000 * (1 + n % 2))
        for n in range(90)
    ]
    path = PricePath(alternating, NOW_MS)
    assert path.paid_ms(DAY_MS, 500) == pytest.approx(DAY_MS, rel=0.05)
    assert path.paid_ms(DAY_MS, 900) == pytest.approx(1.8 * DAY_MS, rel=0.06)
    assert path.paid_ms(2 * DAY_MS, 100) == pytest.approx(1.5 * DAY_MS, rel=0.05)
    assert (path.lowest, path.highest, path.changes) == (1_000_000, 2_000_000, 90)


def test_prices_after_now_are_ignored() -> None:
    later = [SpotPoint(at_ms=NOW_MS + n, node_micro_usd_per_hour=n + 1) for n in range(1, 5)]
    assert PricePath(later, NOW_MS).changes == 0


# -- texts ---------------------------------------------------------------------------------------------


def test_the_basis_contains_the_numbers() -> None:
    spec = replace(
        job(gpus=4),
        checkpoint=CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS),
    )
    history = (
        SpotPoint(at_ms=0, node_micro_usd_per_hour=6_000_000),
        SpotPoint(at_ms=60 * DAY_MS, node_micro_usd_per_hour=8_000_000),
    )
    result = estimated(
        EstimateRequest(spec=spec, run=known_run_time(10 * HOUR_MS)),
        PoolOffer(pool=spot_pool(), history=history),
    )
    assert result.basis == (
        "runs 10 h, at $4.00 an hour on spot (spot); an interruption every 20 h on average"
        " (0.51 expected), a checkpoint every 30 min, 5 min to restart; prices of 60 d: 2 changes"
        " from $6.00 to $8.00 a node"
    )
    assert result.warnings == ()
    assert result.p50_micro_usd == 40_000_000, "half of such jobs are never interrupted"
    assert 41_000_000 < result.p90_micro_usd < 60_000_000
    assert result.p90_ms > result.p50_ms == 10 * HOUR_MS


def test_unknown_inputs_are_warnings() -> None:
    bare = spot_pool(interruptions_per_million_hours=0, node_micro_usd_per_hour=0)
    offer = PoolOffer(pool=bare, warnings=("p4d spot is estimated.",))
    result = estimated(EstimateRequest(spec=job(), run=known_run_time(HOUR_MS)), offer)
    assert [warning.split(";")[0] for warning in result.warnings] == [
        "p4d spot is estimated.",
        "spot is priced at $0",
        "The interruption rate of spot is unknown",
        "spot has no price history",
    ]


def test_a_job_without_checkpoints_gets_an_advised_interval() -> None:
    result = estimated(
        EstimateRequest(spec=job(), run=known_run_time(10 * HOUR_MS)), PoolOffer(pool=spot_pool())
    )
    (warning,) = [one for one in result.warnings if "checkpoints" in one]
    assert "0.6 interruptions are expected" in warning and "A checkpoint every 48 min" in warning


def test_a_job_that_would_never_finish_gets_no_estimate() -> None:
    request = EstimateRequest(spec=job(), run=known_run_time(200 * HOUR_MS))
    result = estimate(request, PoolOffer(pool=spot_pool()), NOW_MS)
    assert isinstance(result, NotEstimated)
    assert "every 20 h on average and saves nothing for 8 d 8 h" in result.reason
    assert result.reason.endswith("Save a checkpoint every 48 min.")


def test_the_loss_of_any_node_interrupts_a_gang() -> None:
    spec = replace(job(gpus=8), checkpoint=CheckpointPolicy(interval_ms=HOUR_MS))
    four = replace(job(gpus=8, tasks=4), checkpoint=CheckpointPolicy(interval_ms=HOUR_MS))
    run = known_run_time(40 * HOUR_MS)
    one_node = estimated(EstimateRequest(spec=spec, run=run), PoolOffer(pool=spot_pool()))
    four_nodes = estimated(EstimateRequest(spec=four, run=run), PoolOffer(pool=spot_pool()))
    assert four_nodes.p50_ms - run.p50_ms > 3 * (one_node.p50_ms - run.p50_ms)


def test_the_cheapest_offer_is_first_and_offers_without_estimate_last() -> None:
    fleet = fleet_of(
        pool("dear", market=Market.ON_DEMAND, usd_per_node_hour=30.0),
        pool("own", usd_per_node_hour=16.0),
    )
    offers = [PoolOffer(pool=spot_pool()), *(PoolOffer(pool=one) for one in fleet.pools)]
    result = estimate_all(
        EstimateRequest(spec=job(), run=known_run_time(200 * HOUR_MS)), offers, NOW_MS
    )
    assert [one.pool for one in result] == ["own", "dear", "spot"]
    result = estimate_all(EstimateRequest(spec=job(), run=known_run_time(HOUR_MS)), offers, NOW_MS)
    assert [one.pool for one in result] == ["spot", "own", "dear"]


def test_the_users_figures_give_the_run_time() -> None:
    assert user_estimate(replace(job(), expected_run_ms=None, max_run_ms=None)) is None
    expected = user_estimate(replace(job(), expected_run_ms=4 * HOUR_MS, max_run_ms=None))
    assert expected is not None
    assert (expected.p50_ms, expected.p90_ms) == (4 * HOUR_MS, 6 * HOUR_MS)
    limited = user_estimate(replace(job(), expected_run_ms=4 * HOUR_MS, max_run_ms=5 * HOUR_MS))
    assert limited is not None
    assert (limited.p50_ms, limited.p90_ms) == (4 * HOUR_MS, 5 * HOUR_MS)
    bounded = user_estimate(replace(job(), expected_run_ms=None, max_run_ms=5 * HOUR_MS))
    assert bounded is not None and bounded.p50_ms == bounded.p90_ms == 5 * HOUR_MS
    assert known_run_time(9 * HOUR_MS).at_most(HOUR_MS).p90_ms == HOUR_MS


def test_the_bill_follows_price_changes_after_the_estimate() -> None:
    fleet = fleet_of(pool("a100", usd_per_node_hour=8.0))
    result = estimated(
        EstimateRequest(spec=job(gpus=8), run=known_run_time(2 * HOUR_MS)),
        PoolOffer(pool=fleet.pools[0]),
    )
    risen = PriceChanged(at_ms=HOUR_MS, pool="a100", node_micro_usd_per_hour=12_000_000)
    scenario = Scenario(
        fleet=fleet,
        tenants=(queue(MAIN_QUEUE),),
        events=(submitted(job(gpus=8)), risen),
        run_ms={"j": 2 * HOUR_MS},
        delays=Delays(start_ms=0, stop_ms=0),
    )
    events: list[LoggedEvent] = [
        FleetDeclared(at_ms=0, fleet=fleet, tenants=scenario.tenants, policies=Policies())
    ]
    for step in Simulation(scenario).steps():
        events += [*step.events, *step.committed]
    assert (result.p50_micro_usd, by_job(replay(events))["j"]) == (16_000_000, 20_000_000)


def test_the_estimate_of_a_mixed_gang_equals_its_bill() -> None:
    fleet = fleet_of(
        pool("spot", nodes=3, market=Market.SPOT, usd_per_node_hour=5.0),
        pool("on-demand", nodes=5, market=Market.ON_DEMAND, usd_per_node_hour=16.0),
    )
    spec = job(
        gpus=8, tasks=4, hours=2, markets=(Market.SPOT, Market.ON_DEMAND), anchors_percent=25
    )
    spot, on_demand = fleet.pools
    (all_of_them,) = spec.groups
    mixed = PoolOffer(
        pool=spot,
        groups=(replace(all_of_them, count=3),),
        anchors=PoolOffer(pool=on_demand, groups=(replace(all_of_them, count=1),)),
    )
    result = estimated(EstimateRequest(spec=spec, run=known_run_time(2 * HOUR_MS)), mixed)
    assert result.pool == "spot+on-demand"
    assert result.p50_micro_usd == (3 * 5 + 16) * 2 * 1_000_000
    assert billed(fleet, spec, 2 * HOUR_MS, Delays(start_ms=0)) == result.p50_micro_usd
    assert "at $31.00 an hour on spot+on-demand (spot)" in result.basis


def test_only_the_spot_nodes_of_a_mixed_gang_are_interrupted() -> None:
    interrupted = spot_pool()
    on_demand = replace(interrupted, name="on_demand", market=Market.ON_DEMAND)
    spec = job(gpus=8, tasks=4, checkpoint=CheckpointPolicy(interval_ms=HOUR_MS))
    request = EstimateRequest(spec=spec, run=known_run_time(20 * HOUR_MS))
    (group_of_all,) = spec.groups
    all_spot = estimated(request, PoolOffer(pool=interrupted))
    half = PoolOffer(
        pool=interrupted,
        groups=(replace(group_of_all, count=2),),
        anchors=PoolOffer(pool=on_demand, groups=(replace(group_of_all, count=2),)),
    )
    assert estimated(request, half).p90_ms < all_spot.p90_ms
