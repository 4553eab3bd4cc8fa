"""Azure prices, from responses in the format of the retail price API."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest

from bursar.clouds.azure.prices import HOST, AzurePrices
from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import PriceSource
from bursar.ports import PriceFeed, PriceRequest
from tests.clouds.recorded import NOW_MS, Answers, StillClock

MACHINE = "Standard_NC24ads_A100_v4"
WANTED = [PriceRequest(region="eastus", instance_types=(MACHINE,))]


def item(**changed: Any) -> dict[str, Any]:
    return {
        "currencyCode": "USD",
        "retailPrice": 3.673,
        "unitPrice": 3.673,
        "armRegionName": "eastus",
        "effectiveStartDate": "2026-01-01T00:00:00Z",
        "meterId": "m-1",
        "productName": "Virtual Machines NCads A100 v4 Series",
        "skuName": "NC24ads A100 v4",
        "armSkuName": MACHINE,
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        **changed,
    }


def feed(*items: dict[str, Any], more: str = "") -> tuple[AzurePrices, Answers]:
    second = {
        "Items": [item(skuName="NC24ads A100 v4 Spot", retailPrice=0.6)],
        "NextPageLink": None,
    }
    answers = Answers(
        {
            "page=2": second,
            "api/retail/prices?": {"BillingCurrency": "USD", "Items": items, "NextPageLink": more},
        }
    )
    return AzurePrices(fetch=answers, clock=StillClock()), answers


def test_all_markets_are_read_from_all_pages() -> None:
    """The price of a reservation is for the whole term, although its unit is an hour."""
    azure, answers = feed(
        item(),
        item(type="Reservation", reservationTerm="1 Year", retailPrice=21_234.0),
        item(type="Reservation", reservationTerm="3 Years", retailPrice=45_375.6),
        item(productName="Virtual Machines NCads A100 v4 Series Windows", retailPrice=9.9),
        item(skuName="NC24ads A100 v4 Low Priority", retailPrice=0.1),
        item(type="DevTestConsumption", retailPrice=0.2),
        more=f"{HOST}api/retail/prices?page=2",
    )
    source: PriceFeed = azure
    reading = source.read(WANTED)
    assert {(row.market, row.term_years): row.node_micro_usd_per_hour for row in reading.rows} == {
        (Market.ON_DEMAND, 0): 3_673_000,
        (Market.SPOT, 0): 600_000,
        (Market.RESERVED, 1): 21_234_000_000 // 8_760,
        (Market.RESERVED, 3): 45_375_600_000 // 26_280,
    }
    assert reading.bad == ()
    assert {(row.as_of_ms, row.instance_type, row.region) for row in reading.rows} == {
        (NOW_MS, MACHINE, "eastus")
    }
    assert {row.source for row in reading.rows} == {PriceSource.QUOTED, PriceSource.OBSERVED}
    assert f"armSkuName eq '{MACHINE}'" in unquote(answers.asked[0]) and len(answers.asked) == 2


def test_the_newest_price_is_used() -> None:
    azure, _ = feed(
        item(retailPrice=4.0, effectiveStartDate="2026-06-01T00:00:00Z"),
        item(retailPrice=3.0, effectiveStartDate="2025-06-01T00:00:00Z"),
    )
    assert [row.node_micro_usd_per_hour for row in azure.read(WANTED).rows] == [4_000_000]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"retailPrice": "free"}, "meter m-1: 'free' is not a price"),
        ({"unitOfMeasure": "1 Month"}, "meter m-1: is priced by '1 Month', not by the hour"),
        (
            {"type": "Reservation", "reservationTerm": "5 Years"},
            "meter m-1: is reserved for '5 Years', not 1 or 3 years",
        ),
    ],
)
def test_invalid_items_are_reported_with_their_meter(changed: dict[str, Any], problem: str) -> None:
    azure, _ = feed(item(), item(**changed))
    reading = azure.read(WANTED)
    assert len(reading.rows) == 1
    assert [str(bad) for bad in reading.bad] == [problem]


def test_other_currencies_are_returned() -> None:
    azure, _ = feed(item(currencyCode="EUR"))
    assert [row.currency for row in azure.read(WANTED).rows] == ["EUR"]


def test_missing_prices_and_invalid_names_are_reported() -> None:
    azure, answers = feed()
    wanted = [PriceRequest(region="eastus", instance_types=(MACHINE, "x' or '1' eq '1"))]
    problems = [bad.problem for bad in azure.read(wanted).bad]
    assert problems == ["has no price. Check the spelling.", "is not a valid Azure name"]
    assert len(answers.asked) == 1, "a name with a quote is never sent"


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (b"<html>", "is not JSON"),
        ({"Items": 3}, "has no list of items"),
        ({"Items": [], "NextPageLink": "https://elsewhere.example/"}, "is not Azure's"),
        ({"Items": [], "NextPageLink": f"{HOST}api/retail/prices?"}, "more than 100 pages"),
    ],
)
def test_invalid_responses_are_faults(page: Any, problem: str) -> None:
    azure = AzurePrices(fetch=Answers({HOST: page}), clock=StillClock())
    with pytest.raises(EngineFault, match=problem) as caught:
        azure.read(WANTED)
    assert caught.value.retry_after_seconds > 0
