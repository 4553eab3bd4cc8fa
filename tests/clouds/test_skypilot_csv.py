"""Catalogue files in SkyPilot's format, and their traps."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.catalog.gpu_models import find_gpu_model
from bursar.catalog.prices.book import packaged
from bursar.clouds.skypilot_csv import CatalogFile, import_file, import_lines
from bursar.model.errors import UserError
from bursar.model.fleet import Market
from bursar.model.price import PriceReading
from tests.clouds.recorded import NOW_MS

HEAD = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,"
    "Region,AvailabilityZone"
)
INFO = "\"{'Gpus': [{'Name': 'A100', 'Count': 8.0}], 'TotalGpuMemoryInMiB': 327680}\""


def read(cloud: str, *lines: str) -> PriceReading:
    shapes = {
        name: shape
        for name in ("g2-standard-4", "a3-highgpu-8g", "a3-megagpu-8g")
        if (shape := packaged().shape(name)) is not None
    }
    file = CatalogFile(
        path="vms.csv",
        cloud=cloud,
        as_of_ms=NOW_MS,
        shapes=shapes,
        gpu_name=lambda name: find_gpu_model(name).name,
    )
    return import_lines([HEAD, *lines], file)


def prices(reading: PriceReading) -> dict[tuple[str, str, str], int]:
    return {
        (row.instance_type, row.market.value, row.zone): row.node_micro_usd_per_hour
        for row in reading.rows
    }


def test_a_file_of_aws() -> None:
    reading = read(
        "aws",
        f"p4d.24xlarge,A100,8.0,96,1152,{INFO},21.957642,19.0017,us-east-1,use1-az1",
        f"p4d.24xlarge,A100,8.0,96,1152,{INFO},21.957642,10.1302,us-east-1,use1-az2",
        "m5.large,,,2,8,,0.096,,us-east-1,use1-az1",
        "p5e.48xlarge,H200,8.0,192,2048,,,25.1918,us-east-2,use2-az1",
        "g6f.large,L4,0.125,2,8,,0.202,0.202,us-east-1,use1-az1",
    )
    assert reading.bad == ()
    assert prices(reading) == {
        ("g6f.large", "on-demand", ""): 202_000,
        ("g6f.large", "spot", "use1-az1"): 202_000,
        ("m5.large", "on-demand", ""): 96_000,
        ("p4d.24xlarge", "on-demand", ""): 21_957_642,
        ("p4d.24xlarge", "spot", "use1-az1"): 19_001_700,
        ("p4d.24xlarge", "spot", "use1-az2"): 10_130_200,
        ("p5e.48xlarge", "spot", "use2-az1"): 25_191_800,
    }
    assert {row.as_of_ms for row in reading.rows} == {NOW_MS}


def test_hosts_and_gpus_of_google_are_added_up_in_their_zone() -> None:
    """The mega machine takes the mega GPUs, though both are H100s to us."""
    reading = read(
        "gcp",
        "g2-standard-4,,,4,16,,0.1468,0.0881,us-central1,us-central1-a",
        ",L4,1.0,,,,0.56,0.336,us-central1,us-central1-a",
        ",L4,1.0,,,,0.99,0.99,us-central1,us-central1-b",
        "a3-highgpu-8g,,,208,1872,,10,6,us-central1,us-central1-a",
        "a3-megagpu-8g,,,208,1872,,10,6,us-central1,us-central1-a",
        ",H100,8.0,,,,70,40,us-central1,us-central1-a",
        ",H100-MEGA,8.0,,,,80,50,us-central1,us-central1-a",
        ",tpu-v3-8,1,,,,8,2,us-central1,us-central1-a",
        ",UNHEARD-OF,8.0,,,,8,2,us-central1,us-central1-a",
        "n2-standard-4,,,4,16,,0.2,,us-central1,us-central1-a",
    )
    assert reading.bad == ()
    assert prices(reading) == {
        ("a3-highgpu-8g", "on-demand", ""): 80_000_000,
        ("a3-highgpu-8g", "spot", "us-central1-a"): 46_000_000,
        ("a3-megagpu-8g", "on-demand", ""): 90_000_000,
        ("a3-megagpu-8g", "spot", "us-central1-a"): 56_000_000,
        ("g2-standard-4", "on-demand", ""): 706_800,
        ("g2-standard-4", "spot", "us-central1-a"): 424_100,
    }


def test_a_placeholder_of_azure_is_not_taken_for_a_spot_price() -> None:
    machine = "Standard_ND96isr_H100_v5"
    reading = read("azure", f"{machine},H100,12,96,1900,,98.32,98.32,eastus,")
    assert prices(reading) == {(machine, "on-demand", ""): 98_320_000}
    (bad,) = reading.bad
    assert str(bad).startswith("vms.csv:2: Standard_ND96isr_H100_v5: spot as dear as on demand")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("p5,H100,8,1,1,,cheap,,us-east-1,a", "vms.csv:3: 'cheap' is not a price"),
        ("p5,H100,8,1,1,,-1,,us-east-1,a", "vms.csv:3: a price of -1 is below 0"),
        ("p5,H100,8,1,1,,1,,,a", "vms.csv:3: has no region"),
        ("m5,,,1,1,,2,,us-east-1,a", "vms.csv:3: m5 has two prices on demand in us-east-1"),
        ("short", "vms.csv:3: has no region"),
    ],
)
def test_bad_rows_are_told_with_their_line(line: str, problem: str) -> None:
    reading = read("aws", "m5,,,1,1,,1,,us-east-1,a", line)
    assert prices(reading) == {("m5", "on-demand", ""): 1_000_000}
    assert [str(bad) for bad in reading.bad] == [problem]


def test_a_number_of_gpus_that_is_none() -> None:
    reading = read("gcp", ",L4,many,,,,0.5,0.3,us-central1,us-central1-a")
    assert [str(bad) for bad in reading.bad] == ["vms.csv:2: 'many' is not a number of GPUs"]


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    file = CatalogFile(path=str(tmp_path / "none.csv"), cloud="aws", as_of_ms=NOW_MS)
    with pytest.raises(UserError) as caught:
        import_file(file)
    assert caught.value.code == "unreadable-price-file"
    with pytest.raises(UserError, match=r"columns InstanceType, .* are missing"):
        import_lines(["a,b"], file)
    with pytest.raises(UserError, match="'lambda' is no cloud we import"):
        read("lambda")


def test_a_file_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "vms.csv"
    path.write_text(f"{HEAD}\nm5,,,1,1,,1,0.5,us-east-1,a\n", encoding="utf-8")
    reading = import_file(CatalogFile(path=str(path), cloud="aws", as_of_ms=NOW_MS))
    assert [row.market for row in reading.rows] == [Market.ON_DEMAND, Market.SPOT]
