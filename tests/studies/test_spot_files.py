"""Published machines, lifetimes and prices of spot capacity, and invalid rows in them."""

from __future__ import annotations

from pathlib import Path

from studies.formats.openb_nodes import TraceNode, read_nodes
from studies.formats.spot_archives import read_lifetimes
from studies.formats.spot_prices import read_spot_prices


def test_machines_of_openb(tmp_path: Path) -> None:
    file = tmp_path / "nodes.csv"
    rows = (
        "n0,32000,262144,0,\nn1,96000,1,8,G2\nn2,1,1,2,T4\nn2,1,1,2,T4\nn3,1,1,2,\nn4,1,-1,2,T4\n"
    )
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\n" + rows)
    found = read_nodes(file)
    assert found.nodes == (
        TraceNode(node_id="n0", cpu_milli=32_000, memory_mib=262_144, gpus=0),
        TraceNode(node_id="n1", cpu_milli=96_000, memory_mib=1, gpus=8, gpu_model="anonymous-g2"),
        TraceNode(node_id="n2", cpu_milli=1, memory_mib=1, gpus=2, gpu_model="t4-16gb"),
    )
    assert found.gpus == 10
    assert [str(row).partition("nodes.csv:")[2] for row in found.bad_rows] == [
        "5: a second node has the id 'n2'",
        "6: has 2 GPUs and 0 models",
        "7: memory_mib is -1, less than 0",
    ]


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
    times_ms = (999_999, 1_000_000, 1_119_999, 1_120_000)
    assert [series.at(at_ms) for at_ms in times_ms] == [None, 973_100, 1_500_000, None]
    assert history.of("p3", "az9") is None
    assert len(read_spot_prices(path, instance_types={"g5"}).series) == 1


def test_a_bad_price_is_reported_and_a_bad_time_ends_its_series(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES + "p3,az1,60,x\np3,az1,60,2\np3,az1,-5,2\np3,az1,60,3\np3,az2,10,1\n")
    history = read_spot_prices(path)
    series = history.of("p3", "az1")
    assert series is not None
    assert list(series.changes())[-1] == (1_240_000, 2_000_000)
    assert [(row.line, row.problem) for row in history.bad_rows] == [
        (7, "spot_usd_h is 'x', not a number"),
        (9, "dt_s is -5, less than 0"),
        (10, "follows a row of its series whose time is invalid"),
    ]
