"""Mixed gangs in the simulation: what anchors cost and what they save on unreliable spot capacity."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS
from bursar.simulate.traces.spot_series import read_spot_series
from studies.spot_deadlines.sources import SERIES, spot_folder
from tests.simulate.mixed_gang_runs import GPUS, ON_DEMAND_USD, SPOT_USD, TASKS, Gang, GangRun, run
from tests.tidy.source import ROOT

FOLDER = Path(os.environ.get("BURSAR_TRACES") or ROOT.parent / "shared" / "traces")
PERCENTS = (0, 30, 50, 100)
STARTS = 16
FOUR_NODES = "preemption/4-node/aws-08-03-2023/us-east-2a_v100_1.json"


def gpu_hours(day: GangRun) -> tuple[float, float]:
    """On spot and on on-demand capacity."""
    return day.spot_usd / SPOT_USD, day.on_demand_usd / ON_DEMAND_USD


def test_anchors_and_other_tasks_cost_the_price_of_their_pools() -> None:
    day = run(Gang(anchors_percent=30), [(0, 4)], HOUR_MS, "calm")
    on_spot, steady = gpu_hours(day)
    assert day.interruptions == 0
    assert on_spot == pytest.approx(11 * day.hours, abs=0.01)
    assert steady == pytest.approx(5 * day.hours, abs=0.01)
    assert day.hours == pytest.approx(24, abs=0.05)


def test_a_lost_spot_node_stops_the_gang_and_it_restarts_on_the_remaining_nodes() -> None:
    day = run(Gang(anchors_percent=30), [(0, 3), (10 * HOUR_MS, 2), (11 * HOUR_MS, 3)], 0, "loss")
    on_spot, steady = gpu_hours(day)
    assert day.interruptions == 1
    assert on_spot == pytest.approx(11 * 10, abs=0.01)
    assert steady == pytest.approx(5 * 10 + TASKS * (day.hours - 10), abs=0.01)
    assert 24 < day.hours < 25


def test_an_elastic_gang_continues_with_its_anchors_and_fewer_spot_tasks() -> None:
    fewer = run(Gang(anchors_percent=50, least=2), [(0, 2), (10 * HOUR_MS, 1)], 0, "loss")
    on_spot, steady = gpu_hours(fewer)
    assert fewer.interruptions == 1
    assert on_spot == pytest.approx(8 * 10 + GPUS * (fewer.hours - 10), abs=0.1)
    assert steady == pytest.approx(8 * 10 + (GPUS + 1) * (fewer.hours - 10), abs=0.1)


def test_the_same_run_gives_the_same_result() -> None:
    spot = [(0, 4), (5 * HOUR_MS, 2), (9 * HOUR_MS, 4)]
    assert run(Gang(anchors_percent=30), spot, 0, "a") == run(
        Gang(anchors_percent=30), spot, 0, "a"
    )


@pytest.fixture
def archive() -> Path:
    try:
        return spot_folder(FOLDER) / SERIES
    except UserError:
        pytest.skip(f"no spot traces in {FOLDER}; set BURSAR_TRACES to the folder of the traces")


@pytest.mark.parametrize("least", [TASKS, 5])
def test_on_recorded_spot_capacity_anchors_cost_what_is_published(
    archive: Path, least: int
) -> None:
    """The means in docs/decisions/0025; each run holds its percentage of anchors to the GPU-hour."""
    series = read_spot_series(f"{archive}::{FOUR_NODES}")
    last_tick = len(series.available) - 52 * HOUR_MS // series.tick_ms
    found: dict[int, list[GangRun]] = {}
    for percent in PERCENTS:
        gang = Gang(anchors_percent=percent, least=least)
        for start in range(STARTS):
            at_ms = series.tick_ms * last_tick // STARTS * start
            day = run(gang, series.changes(), at_ms, str(start))
            on_spot, steady = gpu_hours(day)
            assert steady * (100 - percent) >= on_spot * percent - 1
            found.setdefault(percent, []).append(day)
    usd = {percent: sum(day.usd for day in days) / STARTS for percent, days in found.items()}
    stopped = {percent: sum(day.interruptions for day in days) for percent, days in found.items()}
    assert stopped[100] == 0 and all(day.spot_usd == 0 for day in found[100])
    assert min(stopped[0], stopped[30], stopped[50]) > 0
    assert max(usd[0], usd[30]) < usd[50] < usd[100]
