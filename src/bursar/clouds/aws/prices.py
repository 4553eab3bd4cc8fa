"""Prices of AWS: the price list for on demand and reserved, the price history for spot.

The history has only the moments at which a price changed, so the newest one is today's however old it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from bursar.clouds.aws.price_list import rows_of_product
from bursar.model.errors import EngineFault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import (
    BadPrice,
    PriceReading,
    PriceRow,
    PriceSource,
    SpotPoint,
    micro_usd_of,
)
from bursar.ports import Clock, PriceRequest

PRICE_LIST_REGION = "us-east-1"
"""The price list of every region is served from here."""
LINUX = "Linux/UNIX"
MOST_PAGES = 1_000
ASK_AGAIN_SECONDS = 900.0
LONGEST_HISTORY_DAYS = 90
FILTERS = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}

Page = Mapping[str, Any]


class PricingClient(Protocol):
    """boto3's ``pricing``, so far as it is used."""

    def get_products(self, **asked: Any) -> Page: ...


class Ec2Client(Protocol):
    """boto3's ``ec2``, so far as it is used."""

    def describe_spot_price_history(self, **asked: Any) -> Page: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotHistory:
    """Changes by instance type and zone, oldest first, and what could not be read."""

    points: Mapping[tuple[str, str], tuple[SpotPoint, ...]]
    bad: tuple[BadPrice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsPrices:
    """Price list and spot history as one feed. ``ec2`` gives the client of a region."""

    pricing: PricingClient
    ec2: Callable[[str], Ec2Client]
    clock: Clock

    def read(self, wanted: Sequence[PriceRequest]) -> PriceReading:
        """On demand, reserved, and spot in each zone."""
        rows: list[PriceRow] = []
        bad: list[BadPrice] = []
        for request in wanted:
            for instance_type in request.instance_types:
                rows.extend(self._listed(request.region, instance_type, bad))
            rows.extend(self._spot_now(request, bad))
        return PriceReading(rows=tuple(rows), bad=tuple(bad))

    def spot_history(self, wanted: PriceRequest, days: int = LONGEST_HISTORY_DAYS) -> SpotHistory:
        """Every change of so many days; AWS keeps 90."""
        now = self._now()
        found: dict[tuple[str, str], list[SpotPoint]] = {}
        bad: list[BadPrice] = []
        for item in self._spot_items(wanted, now - timedelta(days=days), now):
            key = (item["InstanceType"], item["AvailabilityZone"])
            try:
                micro_usd = micro_usd_of(str(item["SpotPrice"]))
            except ValueError as problem:
                bad.append(BadPrice(place=f"{key[0]} in {key[1]}", problem=str(problem)))
                continue
            point = SpotPoint(at_ms=_ms(item["Timestamp"]), node_micro_usd_per_hour=micro_usd)
            found.setdefault(key, []).append(point)
        points = {
            key: tuple(sorted(found[key], key=lambda point: point.at_ms)) for key in sorted(found)
        }
        return SpotHistory(points=points, bad=tuple(bad))

    def _listed(self, region: str, instance_type: str, bad: list[BadPrice]) -> Iterator[PriceRow]:
        asked = {**FILTERS, "instanceType": instance_type, "regionCode": region}
        filters = [
            {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in asked.items()
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

    def _spot_now(self, request: PriceRequest, bad: list[BadPrice]) -> Iterator[PriceRow]:
        """The newest change of each zone."""
        now, now_ms = self._now(), self.clock.now_ms()
        newest: dict[tuple[str, str], Mapping[str, Any]] = {}
        for item in self._spot_items(request, now, now):
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

    def _spot_items(
        self, request: PriceRequest, since: datetime, until: datetime
    ) -> Iterator[Mapping[str, Any]]:
        pages = _pages(
            self.ec2(request.region).describe_spot_price_history,
            InstanceTypes=list(request.instance_types),
            ProductDescriptions=[LINUX],
            StartTime=since,
            EndTime=until,
        )
        for page in pages:
            for item in page.get("SpotPriceHistory", ()):
                if item["InstanceType"] in request.instance_types:
                    yield item

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1_000, tz=UTC)


def _pages(ask: Callable[..., Page], **asked: Any) -> Iterator[Page]:
    """All pages of an answer; what boto3 has tried in vain is a fault of the outside world."""
    token = ""
    for _ in range(MOST_PAGES):
        try:
            page = ask(**asked, **({"NextToken": token} if token else {}))
        except (BotoCoreError, ClientError) as error:
            raise _fault(str(error)) from error
        yield page
        token = page.get("NextToken") or ""
        if not token:
            return
    raise _fault(f"more than {MOST_PAGES} pages")


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)


def _fault(problem: str) -> EngineFault:
    return EngineFault(
        f"AWS's prices cannot be read: {problem}. Old prices stand.",
        retry_after_seconds=ASK_AGAIN_SECONDS,
    )
