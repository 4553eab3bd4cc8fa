"""AWS prices: on demand and reserved from the price list, spot from the price history.

The history contains only price changes, so the newest change of a zone is its current price.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from bursar.clouds.aws.price_list import rows_of_product
from bursar.clouds.https import price_fault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import (
    BadPrice,
    PriceReading,
    PriceRow,
    PriceSource,
    micro_usd_of,
)
from bursar.ports import Clock, PriceRequest

PRICE_LIST_REGION = "us-east-1"
"""This region serves the price lists of all regions."""
LINUX = "Linux/UNIX"
CLOUD = "AWS"
MAX_PAGES = 1_000
FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
CLIENT_CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 5}
)

Page = Mapping[str, Any]


class PricingClient(Protocol):
    """The part of boto3's ``pricing`` client that is used."""

    def get_products(self, **arguments: Any) -> Page: ...


class Ec2Client(Protocol):
    """The part of boto3's ``ec2`` client that is used."""

    def describe_spot_price_history(self, **arguments: Any) -> Page: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPrices:
    """The AWS price feed. ``ec2`` returns the client of a region."""

    pricing: PricingClient
    ec2: Callable[[str], Ec2Client]
    clock: Clock

    def read(self, requests: Sequence[PriceRequest]) -> PriceReading:
        """On-demand, reserved and spot prices; spot prices per zone."""
        rows: list[PriceRow] = []
        bad: list[BadPrice] = []
        for request in requests:
            for instance_type in request.instance_types:
                rows.extend(self._list_prices(request.region, instance_type, bad))
            rows.extend(self._spot_prices(request, bad))
        return PriceReading(rows=tuple(rows), bad=tuple(bad))

    def _list_prices(
        self, region: str, instance_type: str, bad: list[BadPrice]
    ) -> Iterator[PriceRow]:
        fields = {**FILTERS, "instanceType": instance_type, "regionCode": region}
        filters = [
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in fields.items()
        ]
        products = 0
        for page in _pages(self.pricing.get_products, ServiceCode="AmazonEC2", Filters=filters):
            for text in page.get("PriceList", ()):
                products += 1
                try:
                    product = json.loads(text)
                except ValueError as problem:
                    place = f"{instance_type} in {region}"
                    bad.append(BadPrice(place=place, problem=f"is not JSON ({problem})"))
                    continue
                reading = rows_of_product(product, self.clock.now_ms())
                bad.extend(reading.bad)
                yield from reading.rows
        if not products:
            place = f"{instance_type} in {region}"
            bad.append(BadPrice(place=place, problem="is not in the price list"))

    def _spot_prices(self, request: PriceRequest, bad: list[BadPrice]) -> Iterator[PriceRow]:
        """The newest price of each zone."""
        now, now_ms = self._now(), self.clock.now_ms()
        newest: dict[tuple[str, str], Mapping[str, Any]] = {}
        for item in self._spot_items(request, now):
            key = (item["InstanceType"], item["AvailabilityZone"])
            if key not in newest or item["Timestamp"] > newest[key]["Timestamp"]:
                newest[key] = item
        for (instance_type, zone), item in sorted(newest.items()):
            try:
                micro_usd = micro_usd_of(str(item["SpotPrice"]))
            except ValueError as problem:
                bad.append(BadPrice(place=f"{instance_type} in {zone}", problem=str(problem)))
                continue
            yield PriceRow(
                cloud="aws",
                region=request.region,
                instance_type=instance_type,
                market=Market.SPOT,
                node_micro_usd_per_hour=micro_usd,
                source=PriceSource.OBSERVED,
                as_of_ms=now_ms,
                zone=zone,
            )

    def _spot_items(self, request: PriceRequest, now: datetime) -> Iterator[Mapping[str, Any]]:
        pages = _pages(
            self.ec2(request.region).describe_spot_price_history,
            InstanceTypes=list(request.instance_types),
            ProductDescriptions=[LINUX],
            StartTime=now,
            EndTime=now,
        )
        for page in pages:
            for item in page.get("SpotPriceHistory", ()):
                if item["InstanceType"] in request.instance_types:
                    yield item

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1_000, tz=UTC)


def aws_prices(clock: Clock) -> AwsPrices:
    """The AWS price feed, with boto3's default credentials."""

    @cache
    def ec2(region: str) -> Ec2Client:
        client: Ec2Client = boto3.client("ec2", region_name=region, config=CLIENT_CONFIG)
        return client

    pricing = boto3.client("pricing", region_name=PRICE_LIST_REGION, config=CLIENT_CONFIG)
    return AwsPrices(pricing=pricing, ec2=ec2, clock=clock)


def _pages(call: Callable[..., Page], **arguments: Any) -> Iterator[Page]:
    """All pages of a response; ``EngineFault`` if boto3's retries fail."""
    token = ""
    for _ in range(MAX_PAGES):
        try:
            page = call(**arguments, **({"NextToken": token} if token else {}))
        except (BotoCoreError, ClientError) as error:
            raise price_fault(CLOUD, str(error)) from error
        yield page
        token = page.get("NextToken") or ""
        if not token:
            return
    raise price_fault(CLOUD, f"more than {MAX_PAGES} pages")
