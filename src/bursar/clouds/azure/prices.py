"""Azure prices from the retail price API, which needs no credentials.

The API gives the price of a reservation for the whole term, with one hour as unit; it is divided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bursar.clouds.https import parse_page, price_fault
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import (
    HOURS_PER_YEAR,
    BadPrice,
    PriceReading,
    PriceRow,
    PriceSource,
    micro_usd_of,
)
from bursar.ports import Clock, Fetch, PriceRequest

HOST = "https://prices.azure.com/"
ADDRESS = f"{HOST}api/retail/prices?api-version=2023-01-01-preview&meterRegion='primary'&$filter="
CLOUD = "Azure"
MAX_PAGES = 100
TERMS = {"1 Year": 1, "3 Years": 3}
HOUR = "1 Hour"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_OTHER_SYSTEMS = ("Windows", "Cloud Services")
_OTHER_OFFERS = ("Low Priority", "Expired")

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePrices:
    """The Azure price feed."""

    fetch: Fetch
    clock: Clock

    def read(self, requests: Sequence[PriceRequest]) -> PriceReading:
        """Prices of all machines, with one query per machine and region."""
        rows: list[PriceRow] = []
        bad: list[BadPrice] = []
        for request in requests:
            for instance_type in request.instance_types:
                place = f"{instance_type} in {request.region}"
                if not _NAME.fullmatch(instance_type) or not _NAME.fullmatch(request.region):
                    bad.append(BadPrice(place=place, problem="is not a valid Azure name"))
                    continue
                prices = self._prices_of(request.region, instance_type, bad)
                rows.extend(prices)
                if not prices:
                    bad.append(BadPrice(place=place, problem="has no price. Check the spelling."))
        return PriceReading(rows=tuple(rows), bad=tuple(bad))

    def _prices_of(self, region: str, instance_type: str, bad: list[BadPrice]) -> list[PriceRow]:
        """The newest price for each market and term."""
        newest: dict[tuple[Market, int], tuple[str, PriceRow]] = {}
        now_ms = self.clock.now_ms()
        for item in self._items(region, instance_type):
            try:
                row = _row_of(item, now_ms)
            except ValueError as problem:
                place = f"meter {item.get('meterId') or item.get('skuId') or instance_type}"
                bad.append(BadPrice(place=place, problem=str(problem)))
                continue
            if row is None:
                continue
            since = str(item.get("effectiveStartDate", ""))
            key = (row.market, row.term_years)
            if key not in newest or since > newest[key][0]:
                newest[key] = since, row
        return [newest[key][1] for key in sorted(newest)]

    def _items(self, region: str, instance_type: str) -> Iterator[Item]:
        """Items of all pages. Links to other hosts are not followed."""
        condition = (
            "serviceName eq 'Virtual Machines'"
            f" and armRegionName eq '{region}' and armSkuName eq '{instance_type}'"
        )
        url = ADDRESS + quote(condition)
        for _ in range(MAX_PAGES):
            page = parse_page(CLOUD, self.fetch(url), "Items", "items")
            yield from (item for item in page.get("Items", ()) if isinstance(item, dict))
            url = str(page.get("NextPageLink") or "")
            if not url:
                return
            if not url.startswith(HOST):
                raise price_fault(CLOUD, f"the link to the next page, {url[:80]}, is not Azure's")
        raise price_fault(CLOUD, f"more than {MAX_PAGES} pages for one machine")


def _row_of(item: Item, now_ms: int) -> PriceRow | None:
    """Converts an item; None for offers that are not used, ``ValueError`` for invalid ones."""
    product, sku = str(item.get("productName", "")), str(item.get("skuName", ""))
    if any(word in product for word in _OTHER_SYSTEMS) or any(w in sku for w in _OTHER_OFFERS):
        return None
    offer_type = item.get("type")
    if offer_type not in ("Consumption", "Reservation"):
        return None
    if item.get("unitOfMeasure") != HOUR:
        raise ValueError(f"is priced by {item.get('unitOfMeasure')!r}, not by the hour")
    years = 0
    market = Market.SPOT if " Spot" in sku else Market.ON_DEMAND
    micro_usd = micro_usd_of(str(item.get("retailPrice", "")))
    if offer_type == "Reservation":
        market = Market.RESERVED
        years = TERMS.get(str(item.get("reservationTerm")), 0)
        if not years:
            raise ValueError(f"is reserved for {item.get('reservationTerm')!r}, not 1 or 3 years")
        micro_usd //= years * HOURS_PER_YEAR
    return PriceRow(
        cloud="azure",
        region=str(item.get("armRegionName", "")),
        instance_type=str(item.get("armSkuName", "")),
        market=market,
        node_micro_usd_per_hour=micro_usd,
        source=PriceSource.OBSERVED if market is Market.SPOT else PriceSource.QUOTED,
        as_of_ms=now_ms,
        term_years=years,
        currency=str(item.get("currencyCode", "")),
    )
