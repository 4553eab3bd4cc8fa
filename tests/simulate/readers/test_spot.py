"""Spot capacity, lifetimes and prices: both conventions, changes, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.simulate.readers import (
    read_lifetimes,
    read_machine_changes,
    read_spot_prices,
    read_spot_series,
)


def series_file(path: Path, **content: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_one_means_available_as_published(tmp_path: Path) -> None:
    path = series_file(
        tmp_path / "us-west-2a_v100_1.json", metadata={"gap_seconds": 600}, data=[1, 1, 0, 16]
    )
    series = read_spot_series(path)
    assert (series.zone, series.instance_type, series.tick_ms) == ("us-west-2a", "v100_1", 600_000)
    assert tuple(series.available) == (1, 1, 0, 16)
    assert series.availability == 0.75
    assert list(series.changes()) == [(0, 1), (1_200_000, 0), (1_800_000, 16)]
    assert [series.at(at_ms) for at_ms in (-1, 0, 1_200_000, 2_399_999, 2_400_000)] == [
        0,
        1,
        0,
        16,
        0,
    ]
    assert series.span_ms == 2_400_000


def test_zero_means_available_where_derived(tmp_path: Path) -> None:
    metadata = {"gap_seconds": 195, "source_file": "x.csv"}
    path = series_file(
        tmp_path / "us-east-1a_v100_1" / "17.json",
        metadata=metadata,
        data=[0, 0, 1],
        prices=[0.9731, 1.0, 1.0],
    )
    series = read_spot_series(path)
    assert (series.zone, series.instance_type) == ("us-east-1a", "v100_1")
    assert tuple(series.available) == (1, 1, 0)
    assert series.price_micro_usd == (973_100, 1_000_000, 1_000_000)
    assert tuple(read_spot_series(path, zero_is_available=False).available) == (0, 0, 1)


@pytest.mark.parametrize(
    "content",
    [
        {"data": [1]},
        {"metadata": {"gap_seconds": 600}},
        {"metadata": {"gap_seconds": 600}, "data": [-1]},
        {"metadata": {"gap_seconds": 600}, "data": ["x"]},
        {"metadata": {"gap_seconds": 0}, "data": [1]},
    ],
)
def test_what_is_no_series_is_refused(tmp_path: Path, content: dict[str, object]) -> None:
    with pytest.raises(UserError, match="not a series of spot availability"):
        read_spot_series(series_file(tmp_path / "z_t.json", **content))


def test_machines_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "p3.csv"
    path.write_text(
        "0,add,n1\n0,add,n2\n60000,remove,n1\n70000,remove,n9\n50000,add,n3\nx,add,n4\n"
    )
    found = read_machine_changes(path)
    assert list(found.changes()) == [(0, 2), (60_000, 1)]
    assert [found.at(at_ms) for at_ms in (-1, 0, 60_000)] == [0, 2, 1]
    assert [row.line for row in found.bad_rows] == [4, 5, 6]
    path.write_text("0,1\n0,3\n120000,2\n")
    assert list(read_machine_changes(path).changes()) == [(0, 3), (120_000, 2)]


def test_lifetimes(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    header = "name,zone,machine_type,lifetime_s,insert_time\n"
    good = "a,us-central1-c,n1-highcpu-16,2836.621,1970-01-01T00:00:00.500-07:00\n"
    path.write_text(f"{header}{good}b,z,m,-1,1970-01-01\nc,z,m,1,never\n")
    found = read_lifetimes(path)
    (one,) = found.lifetimes
    assert (one.lifetime_ms, one.started_ms) == (2_836_621, 7 * 3_600_000 + 500)
    assert [row.line for row in found.bad_rows] == [3, 4]


PRICES = """\
instance_type,az_id,dt_s,spot_usd_h
p3,az2,1000,
p3,az1,1000,0.9731
p3,az1,60,1.5
g5,az1,500,0.1
p3,az1,60,
"""


def test_prices_are_changes_of_each_series(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES)
    history = read_spot_prices(path)
    assert [(one.instance_type, one.zone, len(one)) for one in history.series] == [
        ("g5", "az1", 1),
        ("p3", "az1", 3),
        ("p3", "az2", 1),
    ]
    series = history.of("p3", "az1")
    assert series is not None
    assert list(series.changes()) == [
        (1_000_000, 973_100),
        (1_060_000, 1_500_000),
        (1_120_000, None),
    ]
    moments = (999_999, 1_000_000, 1_119_999, 1_120_000)
    assert [series.at(at_ms) for at_ms in moments] == [None, 973_100, 1_500_000, None]
    assert history.of("p3", "az9") is None
    assert len(read_spot_prices(path, instance_types={"g5"}).series) == 1


def test_a_bad_price_is_told_and_a_bad_time_ends_its_series(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES + "p3,az1,60,x\np3,az1,60,2\np3,az1,-5,2\np3,az1,60,3\np3,az2,10,1\n")
    history = read_spot_prices(path)
    series = history.of("p3", "az1")
    assert series is not None
    assert list(series.changes())[-1] == (1_240_000, 2_000_000)
    assert [(row.line, row.problem) for row in history.bad_rows] == [
        (7, "spot_usd_h is 'x', not a number"),
        (9, "dt_s is -5, less than 0"),
        (10, "follows a row of its series whose time could not be read"),
    ]
