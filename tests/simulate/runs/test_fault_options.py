"""Recorded spot series in ``--faults``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Fleet, Market
from bursar.simulate.runs.fault_options import choose_faults
from tests.support import fleet_of, pool

SERIES = '{"metadata": {"gap_seconds": 600}, "data": [2, 2, 1, 0, 2]}'


def spot_fleet() -> Fleet:
    fleet = fleet_of(pool("cheap", 4))
    return replace(fleet, pools=tuple(replace(one, market=Market.SPOT) for one in fleet.pools))


def test_a_recorded_series_gives_the_available_part_of_a_pool(tmp_path: Path) -> None:
    path = tmp_path / "zone_v100.json"
    path.write_text(SERIES, encoding="utf-8")
    faults = choose_faults(f"spot=cheap:{path},failure=0.1", 3, spot_fleet())
    assert faults is not None and faults.spot_reclaims is not None
    series = faults.spot_reclaims.series["cheap"]
    nodes = list(series.nodes_at_changes(4))
    assert nodes == [(0, 4), (1_200_000, 2), (1_800_000, 0), (2_400_000, 4), (3_000_000, 4)]
    assert faults.failure_chance == 0.1


def test_a_table_of_machines_is_a_series_too(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    path.write_text("0,8\n1000,4\n5000,8\n", encoding="utf-8")
    faults = choose_faults(f"spot=cheap:{path}", 0, spot_fleet())
    assert faults is not None and faults.spot_reclaims is not None
    series = faults.spot_reclaims.series["cheap"]
    assert list(series.nodes_at_changes(4)) == [(0, 4), (1000, 2), (5000, 4)]


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        ("spot=cheap", "not a pool and a file", "spot=POOL:FILE"),
        ("spot=dear:{path}", "not a spot pool", "There are: cheap"),
        ("spot=cheap:{empty}", "never has a machine", "a series with machines"),
    ],
)
def test_an_invalid_series_is_rejected(tmp_path: Path, text: str, problem: str, fix: str) -> None:
    path, empty = tmp_path / "a_b.json", tmp_path / "c_d.json"
    path.write_text(SERIES, encoding="utf-8")
    empty.write_text('{"metadata": {"gap_seconds": 600}, "data": [0]}', encoding="utf-8")
    with pytest.raises(UserError) as caught:
        choose_faults(text.format(path=path, empty=empty), 0, spot_fleet())
    assert problem in caught.value.problem
    assert fix in caught.value.fix
