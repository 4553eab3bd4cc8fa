"""Spot availability series: both conventions, changes, and invalid files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bursar.model.errors import UserError
from bursar.simulate.traces import read_machine_changes, read_spot_series


def series_file(path: Path, **content: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_in_published_series_one_means_available(tmp_path: Path) -> None:
    path = series_file(
        tmp_path / "us-west-2a_v100_1.json", metadata={"gap_seconds": 600}, data=[1, 1, 0, 16]
    )
    series = read_spot_series(path)
    assert (series.zone, series.instance_type, series.tick_ms) == ("us-west-2a", "v100_1", 600_000)
    assert tuple(series.available) == (1, 1, 0, 16)
    assert list(series.changes()) == [(0, 1), (1_200_000, 0), (1_800_000, 16)]
    assert series.span_ms == 2_400_000


def test_in_derived_series_zero_means_available(tmp_path: Path) -> None:
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
def test_an_invalid_series_is_refused(tmp_path: Path, content: dict[str, object]) -> None:
    with pytest.raises(UserError, match="not a series of spot availability"):
        read_spot_series(series_file(tmp_path / "z_t.json", **content))


def test_a_table_of_machines_is_a_series(tmp_path: Path) -> None:
    path = tmp_path / "p3.csv"
    path.write_text(
        "0,add,n1\n0,add,n2\n60000,remove,n1\n70000,remove,n9\n50000,add,n3\nx,add,n4\n"
    )
    found = read_machine_changes(path)
    assert list(found.changes()) == [(0, 2), (60_000, 1)]
    assert [row.line for row in found.bad_rows] == [4, 5, 6]
    path.write_text("0,1\n0,3\n120000,2\n")
    assert list(read_machine_changes(path).changes()) == [(0, 3), (120_000, 2)]
