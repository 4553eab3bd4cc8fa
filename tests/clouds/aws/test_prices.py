"""AWS prices: the price list with a botocore stub, spot prices with moto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from bursar.clouds.aws.prices import AwsPrices, aws_prices
from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import PriceSource
from bursar.ports import PriceFeed, PriceRequest
from tests.clouds.recorded import NOW_MS, StillClock

P5 = "p5.48xlarge"
WANTED = [PriceRequest(region="us-east-1", instance_types=(P5,))]
NOW = datetime.fromtimestamp(NOW_MS / 1_000, tz=UTC)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")


def dimension(unit: str, price: str, currency: str = "USD") -> dict[str, Any]:
    return {"unit": unit, "pricePerUnit": {currency: price}}


def reserved(years: str, option: str, *dimensions: dict[str, Any]) -> dict[str, Any]:
    return {
        "termAttributes": {
            "LeaseContractLength": years,
            "OfferingClass": "standard",
            "PurchaseOption": option,
        },
        "priceDimensions": dict(enumerate(dimensions)),
    }


def product(on_demand: dict[str, Any], **terms: dict[str, Any]) -> str:
    return json.dumps(
        {
            "product": {
                "sku": "SKU1",
                "attributes": {"instanceType": P5, "regionCode": "us-east-1"},
            },
            "terms": {"OnDemand": {"o": {"priceDimensions": {"d": on_demand}}}, "Reserved": terms},
        }
    )


class NoSpot:
    def describe_spot_price_history(self, **arguments: Any) -> dict[str, Any]:
        return {"SpotPriceHistory": []}


@pytest.fixture
def listed() -> Iterator[tuple[AwsPrices, Stubber]]:
    client = boto3.client("pricing", region_name="us-east-1")
    with Stubber(client) as stub:
        yield AwsPrices(pricing=client, ec2=lambda _: NoSpot(), clock=StillClock()), stub


def test_the_price_list_is_read_page_by_page(listed: tuple[AwsPrices, Stubber]) -> None:
    """The rate of a reservation includes the upfront payment; offers without one are preferred."""
    feed, stub = listed
    first = product(
        dimension("Hrs", "55.0400000000"),
        a=reserved("1yr", "All Upfront", dimension("Quantity", "300000"), dimension("Hrs", "0")),
        b=reserved("1yr", "No Upfront", dimension("Hrs", "38.56")),
        c=reserved(
            "3yr", "Partial Upfront", dimension("Quantity", "262800"), dimension("Hrs", "14")
        ),
    )
    stub.add_response("get_products", {"PriceList": [first], "NextToken": "more"})
    stub.add_response("get_products", {"PriceList": []})
    source: PriceFeed = feed
    reading = source.read(WANTED)
    stub.assert_no_pending_responses()
    assert reading.bad == ()
    assert [(r.market, r.term_years, r.node_micro_usd_per_hour, r.note) for r in reading.rows] == [
        (Market.ON_DEMAND, 0, 55_040_000, ""),
        (Market.RESERVED, 1, 38_560_000, "no upfront"),
        (Market.RESERVED, 3, 24_000_000, "partial upfront"),
    ]
    assert {(r.as_of_ms, r.source, r.currency) for r in reading.rows} == {
        (NOW_MS, PriceSource.QUOTED, "USD")
    }


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("{", "p5.48xlarge in us-east-1: is not JSON"),
        ("{}", "sku ?: lacks 'product'"),
        (product(dimension("Hrs", "dear")), "sku SKU1: 'dear' is not a price"),
        (product(dimension("Quantity", "3")), "sku SKU1: is priced by 'Quantity', not by the hour"),
    ],
)
def test_invalid_products_are_reported(
    listed: tuple[AwsPrices, Stubber], item: str, problem: str
) -> None:
    feed, stub = listed
    good = product(dimension("Hrs", "55.04"))
    stub.add_response("get_products", {"PriceList": [item, good]})
    reading = feed.read(WANTED)
    assert len(reading.rows) == 1
    assert len(reading.bad) == 1 and str(reading.bad[0]).startswith(problem)


def test_other_currencies_are_returned(listed: tuple[AwsPrices, Stubber]) -> None:
    feed, stub = listed
    stub.add_response("get_products", {"PriceList": [product(dimension("Hrs", "400", "CNY"))]})
    assert [(r.currency, r.node_micro_usd_per_hour) for r in feed.read(WANTED).rows] == [
        ("CNY", 400_000_000)
    ]


def test_missing_products_and_api_errors_are_reported(listed: tuple[AwsPrices, Stubber]) -> None:
    feed, stub = listed
    stub.add_response("get_products", {"PriceList": []})
    assert [bad.problem for bad in feed.read(WANTED).bad] == ["is not in the price list"]
    stub.add_client_error("get_products", "AccessDeniedException", "not allowed")
    with pytest.raises(EngineFault, match=r"not allowed.*Prices are unchanged"):
        feed.read(WANTED)


# -- spot ----------------------------------------------------------------------------------------------


class History:
    """The documented format, in two pages: prices are text, and only changes are listed."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def describe_spot_price_history(self, **arguments: Any) -> dict[str, Any]:
        self.requests.append(arguments)
        if "NextToken" not in arguments:
            items = [self._item("us-east-1a", "20.5", 3), self._item("us-east-1a", "19.0", 50)]
            return {"SpotPriceHistory": items, "NextToken": "more"}
        items = [self._item("us-east-1b", "21.0384", 900), self._item("us-east-1c", "??", 1)]
        return {"SpotPriceHistory": items, "NextToken": ""}

    def _item(self, zone: str, price: str, hours_ago: int) -> dict[str, Any]:
        return {
            "AvailabilityZone": zone,
            "InstanceType": P5,
            "ProductDescription": "Linux/UNIX",
            "SpotPrice": price,
            "Timestamp": NOW - timedelta(hours=hours_ago),
        }


class NotListed:
    def get_products(self, **arguments: Any) -> dict[str, Any]:
        return {"PriceList": []}


def test_the_newest_change_of_a_zone_is_its_current_price() -> None:
    history = History()
    feed = AwsPrices(pricing=NotListed(), ec2=lambda _: history, clock=StillClock())
    reading = feed.read(WANTED)
    assert [(r.zone, r.node_micro_usd_per_hour, r.as_of_ms) for r in reading.rows] == [
        ("us-east-1a", 20_500_000, NOW_MS),
        ("us-east-1b", 21_038_400, NOW_MS),
    ]
    assert "p5.48xlarge in us-east-1c: '??' is not a price" in [str(bad) for bad in reading.bad]
    assert history.requests[0]["StartTime"] == NOW and history.requests[1]["NextToken"] == "more"


@mock_aws
def test_spot_prices_through_boto3_and_moto() -> None:
    """Uses the production clients and the wire format of EC2."""
    real = aws_prices(StillClock())
    feed = AwsPrices(pricing=NotListed(), ec2=real.ec2, clock=StillClock())
    rows = feed.read([PriceRequest(region="us-east-1", instance_types=("p4d.24xlarge", P5))]).rows
    assert {row.instance_type for row in rows} == {"p4d.24xlarge", P5}
    assert all(row.zone.startswith("us-east-1") and row.market is Market.SPOT for row in rows)
    assert all(row.node_micro_usd_per_hour > 0 for row in rows)
