"""Google Cloud prices, computed from SKUs in the format of the billing catalogue."""

from __future__ import annotations

from typing import Any

import pytest

from bursar.clouds.gcp.prices import GcpPrices
from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import MachineShape
from bursar.ports import PriceFeed, PriceRequest
from bursar.wiring.price_refresh import packaged_prices
from tests.clouds.recorded import NOW_MS, Answers, StillClock

MACHINES = ("g2-standard-4", "a2-highgpu-8g", "a3-megagpu-8g", "a4-highgpu-8g")


def shapes() -> dict[str, MachineShape]:
    known = [packaged_prices().shape(name) for name in (*MACHINES, "g4-standard-48")]
    return {shape.instance_type: shape for shape in known if shape is not None}


def sku(
    description: str, dollars: float, usage: str = "OnDemand", **changed: Any
) -> dict[str, Any]:
    units = int(dollars)
    price = {"currencyCode": "USD", "units": str(units), "nanos": round((dollars - units) * 1e9)}
    unit = "GiBy.h" if "Ram" in description else "h"
    return {
        "skuId": description[:9],
        "description": f"{description} running in Iowa",
        "category": {"resourceFamily": "Compute", "resourceGroup": "GPU", "usageType": usage},
        "serviceRegions": ["us-central1"],
        "pricingInfo": [
            {"pricingExpression": {"usageUnit": unit, "tieredRates": [{"unitPrice": price}]}}
        ],
        **changed,
    }


FIRST = [
    sku("G2 Instance Core", 0.02498844),
    sku("G2 Instance Ram", 0.00292353),
    sku("Nvidia L4 GPU", 0.56004),
    sku("Spot Preemptible G2 Instance Core", 0.01, "Preemptible"),
    sku("Spot Preemptible G2 Instance Ram", 0.001, "Preemptible"),
    sku("Nvidia L4 GPU attached to Spot Preemptible VMs", 0.3, "Preemptible"),
    sku("Commitment v1: G2 Instance Core for 1 Year", 0.001, "Commit1Yr"),
    sku("G2 Instance Core Sole Tenancy", 9.0),
    sku("Nvidia L4 GPU reserved", 9.0),
]
SECOND = [
    sku("A3 Instance Core", 0.02),
    sku("A3 Instance Ram", 0.002),
    sku("Nvidia H100 80GB GPU", 9.0),
    sku("Nvidia H100 80GB Plus GPU", 10.0),
    sku("A4 Nvidia B200 (1 gpu slice)", 11.277),
    sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice)", 4.9542),
    sku("A2 Instance Core", 0.031611),
    sku("A2 Instance Ram", 0.004237),
    sku("Nvidia Tesla A100 80GB GPU", 3.92808),
    sku("Nvidia Tesla A100 GPU", 2.933908),
]


def feed(first: Any = None, second: Any = None) -> tuple[GcpPrices, Answers]:
    answers = Answers(
        {
            "pageToken=n%2F2": {"skus": SECOND if second is None else second},
            "/skus?": {"skus": FIRST if first is None else first, "nextPageToken": "n/2"},
        }
    )
    return GcpPrices(fetch=answers, clock=StillClock(), shapes=shapes()), answers


def prices(*machines: str) -> dict[tuple[str, Market], int]:
    source: PriceFeed = feed()[0]
    reading = source.read([PriceRequest(region="us-central1", instance_types=machines)])
    assert all(row.as_of_ms == NOW_MS for row in reading.rows)
    return {(row.instance_type, row.market): row.node_micro_usd_per_hour for row in reading.rows}


def test_a_machine_costs_the_sum_of_its_components() -> None:
    by_machine = prices("g2-standard-4", "a2-highgpu-8g")
    assert by_machine["g2-standard-4", Market.ON_DEMAND] == 706_770, "published: $0.7068"
    assert by_machine["g2-standard-4", Market.SPOT] == 40_000 + 16_000 + 300_000
    assert by_machine["a2-highgpu-8g", Market.ON_DEMAND] == 29_387_080, "published: $29.3871"


def test_gpus_that_include_the_host_and_gpus_with_several_names() -> None:
    """Some spot SKUs of new GPUs have the type on demand; the description shows spot."""
    by_machine = prices("a4-highgpu-8g", "a3-megagpu-8g")
    assert by_machine["a4-highgpu-8g", Market.ON_DEMAND] == 90_216_000
    assert by_machine["a4-highgpu-8g", Market.SPOT] == 39_633_600
    assert (
        by_machine["a3-megagpu-8g", Market.ON_DEMAND] == 208 * 20_000 + 1_872 * 2_000 + 80_000_000
    )


def test_machines_without_known_components_are_reported() -> None:
    gcp, answers = feed()
    wanted = PriceRequest(
        region="us-central1", instance_types=("a2-highgpu-8g", "g4-standard-48", "z9")
    )
    problems = [str(bad) for bad in gcp.read([wanted]).bad]
    assert problems == [
        "a2-highgpu-8g spot in us-central1: has no SKU called 'A2 Instance Core'",
        "g4-standard-48 on-demand in us-central1: is of the series g4, whose SKUs are unknown",
        "g4-standard-48 spot in us-central1: is of the series g4, whose SKUs are unknown",
        "z9 on-demand in us-central1: is a machine whose components are unknown",
        "z9 spot in us-central1: is a machine whose components are unknown",
    ]
    assert len(answers.asked) == 2, "the catalogue is read once"


@pytest.mark.parametrize(
    "broken",
    [
        {"skuId": "AB-12"},
        {**sku("G2 Instance Core", 1), "skuId": "AB-12", "pricingInfo": []},
        {**sku("G2 Instance Core", -1), "skuId": "AB-12"},
    ],
)
def test_invalid_skus_are_reported_and_the_others_used(broken: dict[str, Any]) -> None:
    gcp, _ = feed(first=[*FIRST, broken])
    reading = gcp.read([PriceRequest(region="us-central1", instance_types=("g2-standard-4",))])
    assert len(reading.rows) == 2
    assert [bad.place for bad in reading.bad] == ["sku AB-12"]


@pytest.mark.parametrize(("page", "problem"), [(b"no", "not JSON"), ({"skus": 1}, "no list")])
def test_invalid_responses_are_faults(page: Any, problem: str) -> None:
    gcp = GcpPrices(fetch=Answers({"skus": page}), clock=StillClock(), shapes={})
    with pytest.raises(EngineFault, match=problem):
        gcp.read([])


def test_too_many_pages_are_a_fault() -> None:
    endless = Answers({"skus?": {"skus": [], "nextPageToken": "again"}})
    gcp = GcpPrices(fetch=endless, clock=StillClock(), shapes={})
    with pytest.raises(EngineFault, match="more than 200 pages"):
        gcp.read([])
