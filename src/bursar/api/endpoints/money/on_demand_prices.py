"""On-demand prices of a pool's nodes, the baseline of savings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.catalog.prices.price_book import PriceBook, PriceQuery
from bursar.catalog.prices.price_changes import INSTANCE_TYPE, REGION, ZONE
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.price import micro_usd_of
from bursar.model.units import write_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemandPrices:
    """Known prices by pool, and warnings about their sources."""

    by_pool: Mapping[str, int]
    warnings: tuple[str, ...]


def on_demand_prices(
    pools: Iterable[Pool], overrides: Mapping[str, int], book: PriceBook, now_ms: int
) -> OnDemandPrices:
    """The caller's price; else that of the price table; else that of a similar pool."""
    known = sorted(pools, key=lambda pool: pool.name)
    prices: dict[str, int] = dict(overrides)
    warnings: list[str] = []
    for pool in known:
        if pool.name in prices or pool.market is Market.ON_DEMAND:
            continue
        price, notes = _listed(pool, book, now_ms)
        if price is None:
            price, notes = _of_similar_pool(pool, known)
        if price is not None:
            prices[pool.name] = price
            warnings += notes
    return OnDemandPrices(by_pool=prices, warnings=tuple(warnings))


def _listed(pool: Pool, book: PriceBook, now_ms: int) -> tuple[int | None, list[str]]:
    machine, region = pool.labels.get(INSTANCE_TYPE), pool.labels.get(REGION)
    if machine is None or region is None:
        return None, []
    query = PriceQuery(region=region, instance_type=machine, zone=pool.labels.get(ZONE, ""))
    try:
        quote = book.find(query, now_ms)
    except UserError:
        return None, []
    return quote.node_micro_usd_per_hour, [f"{pool.name}: {one}" for one in quote.warnings]


def _of_similar_pool(pool: Pool, pools: Iterable[Pool]) -> tuple[int | None, list[str]]:
    for other in pools:
        same = other.gpu_model == pool.gpu_model and other.gpus_per_node == pool.gpus_per_node
        if other.market is Market.ON_DEMAND and same and pool.gpus_per_node:
            price = other.node_micro_usd_per_hour
            return price, [
                f"{pool.name} is compared with {other.name}: {write_usd(price)} an hour."
            ]
    return None, []


def read_prices(texts: Iterable[str]) -> dict[str, int]:
    """Parses ``pool=dollars`` texts, the price of a node-hour."""
    prices: dict[str, int] = {}
    for text in texts:
        pool, _, usd = text.rpartition("=")
        try:
            price = micro_usd_of(usd)
        except ValueError:
            price = 0
        if not pool or price <= 0:
            raise UserError(
                f"price is {text[:60]!r}.",
                fix="Write pool=dollars for a node and hour, for example a100=32.77.",
                code="wrong-value",
            )
        prices[pool] = price
    return prices
