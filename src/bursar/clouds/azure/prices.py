"""Prices of Azure's retail price API. It needs no credentials.

A reservation's price is that of the whole term, although its unit says an hour; here it is divided.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bursar.model.errors import EngineFault
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
MOST_PAGES = 100
ASK_AGAIN_SECONDS = 900.0
TERMS = {"1 Year": 1, "3 Years": 3}
HOUR = "1 Hour"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_OTHER_SYSTEMS = ("Windows", "Cloud Services")
_OTHER_OFFERS = ("Low Priority", "Expired")

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AzurePrices:
    """The retail price API as a feed."""

    fetch: Fetch
    clock: Clock

    def read(self, wanted: Sequence[PriceRequest]) -> PriceReading:
        """One question for each machine of each region."""
        rows: list[PriceRow] = []
        bad: list[BadPrice] = []
        for request in wanted:
            for instance_type in request.instance_types:
                place = f"{instance_type} in {request.region}"
                if not _NAME.fullmatch(instance_type) or not _NAME.fullmatch(request.region):
                    bad.append(BadPrice(place=place, problem="is not a name Azure could know"))
                    continue
                found = self._of_machine(request.region, instance_type, bad)
                rows.extend(found)
                if not found:
                    bad.append(BadPrice(place=place, problem="has no price; is it spelt right?"))
        return PriceReading(rows=tuple(rows), bad=tuple(bad))

    def _of_machine(self, region: str, instance_type: str, bad: list[BadPrice]) -> list[PriceRow]:
        """The newest price of each kind that is in force."""
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
        """All pages. A link to another host is not followed."""
        where = (
            "serviceName eq 'Virtual Machines'"
            f" and armRegionName eq '{region}' and armSkuName eq '{instance_type}'"
        )
        url = ADDRESS + quote(where)
        for _ in range(MOST_PAGES):
            page = _page(self.fetch(url))
            yield from (item for item in page.get("Items", ()) if isinstance(item, dict))
            url = str(page.get("NextPageLink") or "")
            if not url:
                return
            if not url.startswith(HOST):
                raise _fault(f"the next page is said to be at {url[:80]}, which is not Azure's")
        raise _fault(f"more than {MOST_PAGES} pages for one machine")


def _page(body: bytes) -> dict[str, Any]:
    try:
        page = json.loads(body)
    except ValueError as error:
        raise _fault(f"the answer is not JSON ({error})") from error
    if not isinstance(page, dict) or not isinstance(page.get("Items", []), list):
        raise _fault("the answer has no list of items")
    return page


def _row_of(item: Item, now_ms: int) -> PriceRow | None:
    """A price, or None for what we do not buy; ``ValueError`` says what is wrong with it."""
    product, sku = str(item.get("productName", "")), str(item.get("skuName", ""))
    if any(word in product for word in _OTHER_SYSTEMS) or any(w in sku for w in _OTHER_OFFERS):
        return None
    kind = item.get("type")
    if kind not in ("Consumption", "Reservation"):
        return None
    if item.get("unitOfMeasure") != HOUR:
        raise ValueError(f"is priced by {item.get('unitOfMeasure')!r}, not by the hour")
    years = 0
    market = Market.SPOT if " Spot" in sku else Market.ON_DEMAND
    micro_usd = micro_usd_of(str(item.get("retailPrice", "")))
    if kind == "Reservation":
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


def _fault(problem: str) -> EngineFault:
    return EngineFault(
        f"Azure's prices cannot be read: {problem}. Old prices stand.",
        retry_after_seconds=ASK_AGAIN_SECONDS,
    )
