"""Histories of spot pools: four kinds of file, read as machines and prices over time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bursar.model import event as ev
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market, Node
from bursar.model.tenants.policy import Policies
from bursar.simulate.spot_study.history import PoolChange, common_span, read_history
from bursar.simulate.spot_study.study import HistoryStudy, run_history_study
from bursar.simulate.workload.event_log import RecordedRun, write_run
from tests.support import fleet_of, pool


def test_a_table_has_pools_and_constant_prices(tmp_path: Path) -> None:
    file = tmp_path / "spot.csv"
    file.write_text(
        "at,pool,machines,usd_per_hour\n"
        "1970-01-01T00:00:00Z,a,2,0.5\n600,a,0,\n1200,a,1,0.75\n0,b,1,\nsoon,b,1,\n300,a,1,\n"
    )
    found = read_history(str(file))
    a, b = found.pools
    assert a.changes == (
        PoolChange(0, 2, 500_000),
        PoolChange(600_000, 0, 500_000),
        PoolChange(1_200_000, 1, 750_000),
    )
    assert (b.pool, b.changes, b.end_ms) == ("b", (PoolChange(0, 1, 0),), 1_200_000)
    assert a.has_prices and not b.has_prices
    assert [(row.line, row.problem) for row in found.bad_rows] == [
        (6, "at is 'soon', not a date and time"),
        (7, "at is 300, before the previous row of its pool"),
    ]


def test_a_file_for_faults_is_a_history_too(tmp_path: Path) -> None:
    series = tmp_path / "west.json"
    series.write_text(
        json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 0, 2], "prices": [1.0, 1.0, 0.5]})
    )
    (west,) = read_history(str(series)).pools
    assert (west.pool, west.tick_ms, west.end_ms) == ("west", 600_000, 1_800_000)
    assert west.changes[2] == PoolChange(1_200_000, 2, 500_000)
    machines = tmp_path / "east.csv"
    machines.write_text("0,add,n1\n600000,remove,n1\n1800000,add,n2\n")
    (east,) = read_history(str(machines)).pools
    assert east.changes == (
        PoolChange(0, 1, 0),
        PoolChange(600_000, 0, 0),
        PoolChange(1_800_000, 1, 0),
    )
    span = common_span([west, east])
    assert list(span) == [0, 600_000, 1_200_000]
    assert west.track(span, 1, 9).prices_micro_usd == (1_000_000, 0, 500_000)
    assert west.track(span, 2, 9).prices_micro_usd == (0, 0, 500_000)
    assert east.track(span, 1, 9).prices_micro_usd == (9, 0, 0)


def test_an_event_log_gives_the_availability_of_spot_nodes(tmp_path: Path) -> None:
    fleet = fleet_of(
        pool("cheap", 2, market=Market.SPOT, usd_per_node_hour=10),
        pool("steady", 1, usd_per_node_hour=30),
    )
    first, second = [node.id for node in fleet.nodes if node.pool == "cheap"]
    notice = {"source": "aws", "kind": ev.NoticeKind.TERMINATE}
    events: list[ev.Event] = [
        ev.NodeLost(at_ms=5_000, node=first),
        ev.SpotNotice(at_ms=6_000, node=second, **notice),  # type: ignore[arg-type]
        ev.NodeLost(at_ms=7_000, node=second),
        ev.NodeAdded(at_ms=8_000, node=Node(id=first, pool="cheap")),
        ev.PriceChanged(at_ms=9_000, pool="cheap", node_micro_usd_per_hour=11_000_000),
        ev.NodeLost(at_ms=9_500, node="elsewhere"),
    ]
    run = RecordedRun(fleet=fleet, tenants=(), policies=Policies(), events=events)
    file = tmp_path / "events.jsonl"
    with file.open("w", encoding="utf-8") as out:
        write_run(run, out)
    found = read_history(str(file))
    assert found.on_demand_micro_usd == 30_000_000
    (history,) = found.pools
    assert (history.pool, history.end_ms) == ("cheap", 9_500)
    assert [(one.at_ms, one.machines) for one in history.changes] == [
        (5_000, 2),
        (5_000, 1),
        (6_000, 0),
        (8_000, 1),
        (9_000, 1),
    ]
    assert history.changes[-1].price_micro_usd == 11_000_000


@pytest.mark.parametrize("text", ["", "Dear all\n", "at,machines\n0,0\n60,0\n"])
def test_a_file_without_a_machine_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "spot.csv"
    file.write_text(text)
    with pytest.raises(UserError, match="no time with an available spot machine"):
        read_history(str(file))


def test_two_files_about_one_pool_are_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.csv").write_text("at,machines\n0,1\n60000,1\n")
    files = [str(tmp_path / folder / "a.csv") for folder in ("one", "two")]
    with pytest.raises(UserError, match="a pool with the name 'a'"):
        run_history_study(HistoryStudy(histories=files, on_demand_micro_usd=2, spot_micro_usd=1))
