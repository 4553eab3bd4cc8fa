"""Converts products of the AWS price list to prices.

A reservation has an hourly rate and an upfront payment, which is spread over the hours of the term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import (
    HOURS_PER_YEAR,
    USD,
    BadPrice,
    PriceReading,
    PriceRow,
    PriceSource,
    micro_usd_of,
)

TERMS = {"1yr": 1, "3yr": 3}
HOURLY, UPFRONT = "Hrs", "Quantity"
OPTIONS = ("No Upfront", "Partial Upfront", "All Upfront")
"""The first one offered is used: it compares best with hourly prices."""


class _Rate(NamedTuple):
    micro_usd: int
    currency: str


def rows_of_product(product: Mapping[str, Any], now_ms: int) -> PriceReading:
    """On-demand and reserved prices of one SKU, and its problems."""
    rows: list[PriceRow] = []
    bad: list[BadPrice] = []
    sku = "?"
    try:
        sku = str(product["product"]["sku"])
        attributes = product["product"]["attributes"]
        machine = str(attributes["regionCode"]), str(attributes["instanceType"])
        terms = product["terms"]
        for term in terms.get("OnDemand", {}).values():
            rows.append(_row(machine, Market.ON_DEMAND, _rate(term, 0), now_ms))
        rows.extend(_reserved(machine, terms.get("Reserved", {}), now_ms))
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        text = f"lacks {problem}" if isinstance(problem, KeyError) else str(problem)
        bad.append(BadPrice(place=f"sku {sku}", problem=text))
    return PriceReading(rows=tuple(rows), bad=tuple(bad))


def _reserved(
    machine: tuple[str, str], terms: Mapping[str, Any], now_ms: int
) -> Iterator[PriceRow]:
    best: dict[int, tuple[int, Mapping[str, Any]]] = {}
    for term in terms.values():
        attributes = term["termAttributes"]
        years = TERMS.get(attributes["LeaseContractLength"])
        if years is None or attributes["OfferingClass"] != "standard":
            continue
        rank = OPTIONS.index(attributes["PurchaseOption"])
        if years not in best or rank < best[years][0]:
            best[years] = rank, term
    for years, (rank, term) in sorted(best.items()):
        row = _row(machine, Market.RESERVED, _rate(term, years), now_ms)
        yield replace(row, term_years=years, note=OPTIONS[rank].lower())


def _rate(term: Mapping[str, Any], years: int) -> _Rate:
    """Hourly rate, including the hour's share of the upfront payment."""
    micro_usd, currency = 0, ""
    for dimension in term["priceDimensions"].values():
        prices: Mapping[str, str] = dimension["pricePerUnit"]
        currency = USD if USD in prices else min(prices)
        amount = micro_usd_of(prices[currency])
        if dimension["unit"] == HOURLY:
            micro_usd += amount
        elif dimension["unit"] == UPFRONT and years:
            micro_usd += amount // (years * HOURS_PER_YEAR)
        else:
            raise ValueError(f"is priced by {dimension['unit']!r}, not by the hour")
    if not currency:
        raise ValueError("has no price")
    return _Rate(micro_usd, currency)


def _row(machine: tuple[str, str], market: Market, rate: _Rate, now_ms: int) -> PriceRow:
    region, instance_type = machine
    return PriceRow(
        cloud="aws",
        region=region,
        instance_type=instance_type,
        market=market,
        node_micro_usd_per_hour=rate.micro_usd,
        source=PriceSource.QUOTED,
        as_of_ms=now_ms,
        currency=rate.currency,
    )
