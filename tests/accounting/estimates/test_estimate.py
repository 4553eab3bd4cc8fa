"""Estimates before submission: they agree with the bill, and move the right way."""

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
from bursar.accounting.estimates.run_time import RunTime, exactly, told
from bursar.accounting.ledger.ledger import replay
from bursar.model.event import FleetDeclared, JobSubmitted, LoggedEvent, PriceChanged
from bursar.model.fleet.fleet import Fleet, Market, Pool
from bursar.model.fleet.price import SpotPoint
from bursar.model.jobs.job import CheckpointPolicy, JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.scenario import Delays, Scenario
from bursar.simulate.simulation import Simulation
from tests.support import fleet_of, gang, group, job, mig_job, mps_job, pool, queue
from tests.support.book_views import by_job
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


def made(asked: EstimateRequest, offer: PoolOffer) -> CostEstimate:
    found = estimate(asked, offer, NOW_MS)
    assert isinstance(found, CostEstimate), found
    return found


def submitted(spec: JobSpec) -> JobSubmitted:
    return JobSubmitted(at_ms=0, job_id="j", spec=spec, priority=0)


def billed(fleet: Fleet, spec: JobSpec, run_ms: int, delays: Delays) -> int:
    """What the ledger says of one job that nothing disturbs."""
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
def test_an_undisturbed_run_at_a_fixed_price_costs_what_was_estimated(spec: JobSpec) -> None:
    fleet = fleet_of(pool("a100", nodes=2, usd_per_node_hour=13.37))
    run_ms, start_ms = 5 * HOUR_MS + 1_234_567, 20 * SECOND_MS
    asked = EstimateRequest(spec=spec, run=exactly(run_ms), start_ms=start_ms)
    found = made(asked, PoolOffer(pool=fleet.pools[0]))
    bill = billed(fleet, spec, run_ms, Delays(start_ms=start_ms, stop_ms=0))
    assert found.p50_micro_usd == found.p90_micro_usd == pytest.approx(bill, abs=20), "20 postings"
    assert found.p50_ms == run_ms + start_ms and found.warnings == ()


@given(
    gpus=st.integers(1, 8),
    run_ms=st.integers(SECOND_MS, 60 * HOUR_MS),
    price=st.integers(1, 200_000_000),
)
def test_whatever_the_price_and_the_run(gpus: int, run_ms: int, price: int) -> None:
    fleet = fleet_of(pool("a100"))
    fleet = replace(fleet, pools=(replace(fleet.pools[0], node_micro_usd_per_hour=price),))
    found = made(
        EstimateRequest(spec=job(gpus=gpus), run=exactly(run_ms)), PoolOffer(pool=fleet.pools[0])
    )
    bill = billed(fleet, job(gpus=gpus), run_ms, Delays(start_ms=0, stop_ms=0))
    assert abs(found.p50_micro_usd - bill) <= 2 + run_ms // HOUR_MS, "a micro-dollar an hour"


# -- which way it moves --------------------------------------------------------------------------------

prices = st.lists(st.integers(1_000_000, 20_000_000), min_size=2, max_size=30)


@st.composite
def cases(draw: st.DrawFn) -> tuple[EstimateRequest, PoolOffer]:
    half = draw(st.integers(MINUTE_MS, 30 * HOUR_MS))
    run = RunTime(p50_ms=half, p90_ms=half + draw(st.integers(0, 10 * HOUR_MS)), basis="so it is")
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
def test_longer_or_dearer_is_never_cheaper(
    case: tuple[EstimateRequest, PoolOffer], more_ms: int, dearer: int
) -> None:
    asked, offer = case
    found = estimate(asked, offer, NOW_MS)
    if isinstance(found, NotEstimated):
        return
    assert found.p90_micro_usd >= found.p50_micro_usd and found.p90_ms >= found.p50_ms
    run = asked.run
    longer = replace(run, p50_ms=run.p50_ms + more_ms, p90_ms=run.p90_ms + more_ms)
    after = estimate(replace(asked, run=longer), offer, NOW_MS)
    if isinstance(after, CostEstimate):
        slack = 10
        assert after.p50_micro_usd >= found.p50_micro_usd - slack
        assert after.p90_micro_usd >= found.p90_micro_usd - slack
    price = offer.pool.node_micro_usd_per_hour + dearer
    risen = replace(offer, pool=replace(offer.pool, node_micro_usd_per_hour=price))
    after = made(asked, risen)
    assert after.p50_micro_usd >= found.p50_micro_usd
    assert after.p90_micro_usd >= found.p90_micro_usd


@given(case=cases())
def test_the_same_question_gets_the_same_answer(case: tuple[EstimateRequest, PoolOffer]) -> None:
    assert estimate(*case, NOW_MS) == estimate(*case, NOW_MS)


# -- prices that move ----------------------------------------------------------------------------------


def test_a_price_that_never_moved_is_taken_as_it_is() -> None:
    still = [SpotPoint(at_ms=n * DAY_MS, node_micro_usd_per_hour=5) for n in range(90)]
    assert PricePath(still, NOW_MS).paid_ms(7 * HOUR_MS, 900) == 7 * HOUR_MS
    assert PricePath((), NOW_MS).paid_ms(7 * HOUR_MS, 900) == 7 * HOUR_MS


def test_a_price_that_doubles_every_other_day_shows_in_nine_of_ten() -> None:
    """One dollar and two in turn, a day each: a run of a day pays between half of one and two."""
    turns = [
        SpotPoint(at_ms=n * DAY_MS, node_micro_usd_per_hour=1_000_000 * (1 + n % 2))
        for n in range(90)
    ]
    path = PricePath(turns, NOW_MS)
    assert path.paid_ms(DAY_MS, 500) == pytest.approx(DAY_MS, rel=0.05)
    assert path.paid_ms(DAY_MS, 900) == pytest.approx(1.8 * DAY_MS, rel=0.06)
    assert path.paid_ms(2 * DAY_MS, 100) == pytest.approx(1.5 * DAY_MS, rel=0.05)
    assert (path.lowest, path.highest, path.changes) == (1_000_000, 2_000_000, 90)


def test_prices_of_the_future_are_not_known() -> None:
    later = [SpotPoint(at_ms=NOW_MS + n, node_micro_usd_per_hour=n + 1) for n in range(1, 5)]
    assert PricePath(later, NOW_MS).changes == 0


# -- what is said --------------------------------------------------------------------------------------


def test_the_basis_has_the_numbers() -> None:
    spec = replace(
        job(gpus=4),
        checkpoint=CheckpointPolicy(interval_ms=30 * MINUTE_MS, restart_ms=5 * MINUTE_MS),
    )
    history = (
        SpotPoint(at_ms=0, node_micro_usd_per_hour=6_000_000),
        SpotPoint(at_ms=60 * DAY_MS, node_micro_usd_per_hour=8_000_000),
    )
    found = made(
        EstimateRequest(spec=spec, run=exactly(10 * HOUR_MS)),
        PoolOffer(pool=spot_pool(), history=history),
    )
    assert found.basis == (
        "runs 10 h, at $4.00 an hour on spot (spot); an interruption every 20 h on average"
        " (0.51 expected), saves every 30 min, 5 min to restart; prices of 60 d: 2 changes from"
        " $6.00 to $8.00 a node"
    )
    assert found.warnings == ()
    assert found.p50_micro_usd == 40_000_000, "half of such jobs are never interrupted"
    assert 41_000_000 < found.p90_micro_usd < 60_000_000
    assert found.hours_p90 > found.hours_p50 == 10


def test_what_is_not_known_is_said() -> None:
    bare = spot_pool(interruptions_per_million_hours=0, node_micro_usd_per_hour=0)
    offer = PoolOffer(pool=bare, warnings=("p4d spot is estimated.",))
    found = made(EstimateRequest(spec=job(), run=exactly(HOUR_MS)), offer)
    assert [warning.split(";")[0] for warning in found.warnings] == [
        "p4d spot is estimated.",
        "spot is priced at $0",
        "No interruption rate of spot is known",
        "No price history of spot is known",
    ]


def test_a_job_that_saves_nothing_is_told_how_often_to_save() -> None:
    found = made(
        EstimateRequest(spec=job(), run=exactly(10 * HOUR_MS)), PoolOffer(pool=spot_pool())
    )
    (warning,) = [one for one in found.warnings if "checkpoints" in one]
    assert "0.6 interruptions are expected" in warning and "Saving every 48 min" in warning


def test_a_job_that_would_never_end_gets_no_figure() -> None:
    asked = EstimateRequest(spec=job(), run=exactly(200 * HOUR_MS))
    found = estimate(asked, PoolOffer(pool=spot_pool()), NOW_MS)
    assert isinstance(found, NotEstimated)
    assert "every 20 h on average and nothing is saved for 8 d 8 h" in found.reason
    assert found.reason.endswith("Save a checkpoint every 48 min.")


def test_a_gang_is_stopped_by_any_of_its_nodes() -> None:
    spec = replace(job(gpus=8), checkpoint=CheckpointPolicy(interval_ms=HOUR_MS))
    four = replace(job(gpus=8, tasks=4), checkpoint=CheckpointPolicy(interval_ms=HOUR_MS))
    run = exactly(40 * HOUR_MS)
    one_node = made(EstimateRequest(spec=spec, run=run), PoolOffer(pool=spot_pool()))
    four_nodes = made(EstimateRequest(spec=four, run=run), PoolOffer(pool=spot_pool()))
    assert four_nodes.p50_ms - run.p50_ms > 3 * (one_node.p50_ms - run.p50_ms)


def test_the_cheapest_offer_is_first_and_the_hopeless_last() -> None:
    fleet = fleet_of(
        pool("dear", market=Market.ON_DEMAND, usd_per_node_hour=30.0),
        pool("own", usd_per_node_hour=16.0),
    )
    offers = [PoolOffer(pool=spot_pool()), *(PoolOffer(pool=one) for one in fleet.pools)]
    found = estimate_all(EstimateRequest(spec=job(), run=exactly(200 * HOUR_MS)), offers, NOW_MS)
    assert [one.pool for one in found] == ["own", "dear", "spot"]
    found = estimate_all(EstimateRequest(spec=job(), run=exactly(HOUR_MS)), offers, NOW_MS)
    assert [one.pool for one in found] == ["spot", "own", "dear"]


def test_what_users_say_of_the_run_time() -> None:
    assert told(replace(job(), expected_run_ms=None, max_run_ms=None)) is None
    expected = told(replace(job(), expected_run_ms=4 * HOUR_MS, max_run_ms=None))
    assert expected is not None
    assert (expected.p50_ms, expected.p90_ms) == (4 * HOUR_MS, 6 * HOUR_MS)
    limited = told(replace(job(), expected_run_ms=4 * HOUR_MS, max_run_ms=5 * HOUR_MS))
    assert limited is not None
    assert (limited.p50_ms, limited.p90_ms) == (4 * HOUR_MS, 5 * HOUR_MS)
    bounded = told(replace(job(), expected_run_ms=None, max_run_ms=5 * HOUR_MS))
    assert bounded is not None and bounded.p50_ms == bounded.p90_ms == 5 * HOUR_MS
    assert exactly(9 * HOUR_MS).at_most(HOUR_MS).p90_ms == HOUR_MS


def test_price_changes_are_paid_as_they_come() -> None:
    """The bill follows the price while the estimate was made at the old one: it is off by the rise."""
    fleet = fleet_of(pool("a100", usd_per_node_hour=8.0))
    found = made(
        EstimateRequest(spec=job(gpus=8), run=exactly(2 * HOUR_MS)), PoolOffer(pool=fleet.pools[0])
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
    assert (found.p50_micro_usd, by_job(replay(events))["j"]) == (16_000_000, 20_000_000)


def test_the_estimate_of_a_mixed_gang_is_its_bill() -> None:
    fleet = fleet_of(
        pool("spot", nodes=3, market=Market.SPOT, usd_per_node_hour=5.0),
        pool("steady", nodes=5, market=Market.ON_DEMAND, usd_per_node_hour=16.0),
    )
    spec = job(
        gpus=8, tasks=4, hours=2, markets=(Market.SPOT, Market.ON_DEMAND), anchors_percent=25
    )
    spot, steady = fleet.pools
    (all_of_them,) = spec.groups
    mixed = PoolOffer(
        pool=spot,
        groups=(replace(all_of_them, count=3),),
        anchors=PoolOffer(pool=steady, groups=(replace(all_of_them, count=1),)),
    )
    found = made(EstimateRequest(spec=spec, run=exactly(2 * HOUR_MS)), mixed)
    assert found.pool == "spot+steady"
    assert found.p50_micro_usd == (3 * 5 + 16) * 2 * 1_000_000
    assert billed(fleet, spec, 2 * HOUR_MS, Delays(start_ms=0)) == found.p50_micro_usd
    assert "at $31.00 an hour on spot+steady (spot)" in found.basis


def test_only_the_spot_part_of_a_mixed_gang_is_disturbed() -> None:
    disturbed = spot_pool()
    steady = replace(disturbed, name="steady", market=Market.ON_DEMAND)
    spec = job(gpus=8, tasks=4, checkpoint=CheckpointPolicy(interval_ms=HOUR_MS))
    asked = EstimateRequest(spec=spec, run=exactly(20 * HOUR_MS))
    (group_of_all,) = spec.groups
    all_spot = made(asked, PoolOffer(pool=disturbed))
    half = PoolOffer(
        pool=disturbed,
        groups=(replace(group_of_all, count=2),),
        anchors=PoolOffer(pool=steady, groups=(replace(group_of_all, count=2),)),
    )
    assert made(asked, half).p90_ms < all_spot.p90_ms
