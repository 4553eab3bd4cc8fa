"""Deadlines on spot in the simulation, with the ``decide`` of a live fleet."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bursar.model.errors import UserError
from bursar.model.jobs.job import CheckpointPolicy
from bursar.model.tenants.policy import DeadlineRule, Policies, SpotPolicy
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.scenario import Delays
from studies.spot_deadlines.sources import TWO_WEEKS, read_cases, spot_folder
from tests.simulate.spot_job_runs import (
    ON_DEMAND_USD,
    Availability,
    Timed,
    random_availability,
    run,
)
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")
TICK_MS = 5 * MINUTE_MS
DELAYS = Delays(start_ms=20 * SECOND_MS, stop_ms=30 * SECOND_MS)
POLICIES = Policies(spot=SpotPolicy(tick_ms=TICK_MS, change_over_ms=MINUTE_MS))


def drawn(seed: int) -> tuple[dict[str, Availability], Timed]:
    """A job that meets its deadline if it starts on demand at once, and random spot availability."""
    chance = Random(f"{seed}/spot")
    hours = chance.choice([1, 3, 6])
    interval_ms = chance.choice([None, 5 * MINUTE_MS, 15 * MINUTE_MS, 50 * MINUTE_MS])
    restart_ms = chance.choice([0, 3 * MINUTE_MS, 10 * MINUTE_MS])
    slack_ms = chance.choice([0, 10, 60, 200, 600]) * MINUTE_MS
    least_ms = hours * HOUR_MS + restart_ms + MINUTE_MS + 2 * TICK_MS
    timed = Timed(
        submitted_ms=chance.randrange(HOUR_MS),
        hours=hours,
        within_ms=least_ms + slack_ms,
        checkpoint=CheckpointPolicy(interval_ms=interval_ms, restart_ms=restart_ms),
    )
    zones = [f"zone-{number}" for number in range(chance.choice([1, 1, 2, 3]))]
    return {zone: random_availability(chance, 30 * HOUR_MS) for zone in zones}, timed


SEEDS = range(40)


@pytest.mark.thorough
def test_no_feasible_deadline_is_missed_and_the_job_costs_less_than_on_demand() -> None:
    paid = steady = 0.0
    seen = {"moves": 0, "losses": 0, "all on spot": 0, "all steady": 0}
    for seed in SEEDS:
        zones, timed = drawn(seed)
        found = run(zones, timed, POLICIES, DELAYS)
        assert found.done_ms is not None, f"drawn({seed}) never ended"
        late_ms = found.done_ms - timed.submitted_ms - timed.within_ms
        assert late_ms <= 0, f"drawn({seed}) ended {late_ms} ms late"
        paid += found.usd
        steady += timed.hours * ON_DEMAND_USD
        seen["moves"] += found.moves
        seen["losses"] += found.losses
        seen["all on spot"] += not found.on_demand_hours
        seen["all steady"] += found.on_demand_hours >= timed.hours
    assert paid < 0.9 * steady
    assert all(seen.values()), seen


def test_the_same_run_gives_the_same_result() -> None:
    zones, timed = drawn(3)
    assert run(zones, timed, POLICIES, DELAYS) == run(zones, timed, POLICIES, DELAYS)


@pytest.fixture
def traces() -> Path:
    try:
        return spot_folder(FOLDER)
    except UserError:
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")


@pytest.mark.thorough
def test_on_recorded_spot_capacity_our_rule_costs_less_than_uniform_progress(traces: Path) -> None:
    paid = dict.fromkeys(DeadlineRule, 0.0)
    for case in read_cases(traces, 60 * HOUR_MS):
        if case.group != TWO_WEEKS:
            continue
        intervals = [(tick * case.tick_ms, count > 0) for tick, count in enumerate(case.available)]
        saves = CheckpointPolicy(interval_ms=case.tick_ms, restart_ms=12 * MINUTE_MS)
        for start in case.starts[:: len(case.starts) // 3]:
            timed = Timed(
                submitted_ms=start * case.tick_ms,
                hours=48,
                within_ms=60 * HOUR_MS,
                checkpoint=saves,
            )
            for rule in DeadlineRule:
                spot = SpotPolicy(deadline_rule=rule, tick_ms=case.tick_ms, change_over_ms=0)
                policies = replace(Policies(), spot=spot)
                at_once = Delays(start_ms=0, stop_ms=0)
                found = run({"zone": intervals}, timed, policies, at_once, check=False)
                assert found.done_ms is not None
                assert found.done_ms <= timed.submitted_ms + timed.within_ms, (
                    rule,
                    case.name,
                    start,
                )
                paid[rule] += found.usd
    ours, published = paid[DeadlineRule.EXPECTED_COST], paid[DeadlineRule.UNIFORM_PROGRESS]
    assert ours < published < paid[DeadlineRule.ON_DEMAND]
