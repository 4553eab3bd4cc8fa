"""Fetched prices become events or are rejected with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bursar.catalog.prices.price_changes import (
    INSTANCE_TYPE,
    REGION,
    TERM_YEARS,
    ZONE,
    price_update,
)
from bursar.model.event import PriceChanged
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.price import PriceSource
from bursar.model.units import DAY_MS, HOUR_MS
from tests.catalog.prices.test_price_book import NOW_MS, row
from tests.support import fleet_of, pool

LABELS = {INSTANCE_TYPE: "p5.48xlarge", REGION: "us-east-1"}


def spot(**labels: str) -> Pool:
    plan = pool("spot", market=Market.SPOT, usd_per_node_hour=20.0, labels={**LABELS, **labels})
    return fleet_of(plan).pools[0]


def test_a_new_price_is_an_event() -> None:
    changes = price_update([spot()], [row(21_000_000)], NOW_MS).changes
    assert changes == (PriceChanged(at_ms=NOW_MS, pool="spot", node_micro_usd_per_hour=21_000_000),)


def test_an_unchanged_price_is_no_event() -> None:
    update = price_update([spot()], [row(20_000_000)], NOW_MS)
    assert (update.changes, update.refused) == ((), ())


def test_owned_pools_and_pools_without_an_instance_type_are_skipped() -> None:
    owned = replace(spot(), market=Market.OWNED)
    nameless = replace(spot(), labels={})
    update = price_update([owned, nameless], [row(1), row(2, market=Market.OWNED)], NOW_MS)
    assert (update.changes, update.refused) == ((), ())


def test_the_price_is_that_of_the_zone_or_the_median() -> None:
    rows = [row(18_000_000, "a"), row(21_000_000, "b"), row(40_000_000, "c")]
    (change,) = price_update([spot(**{ZONE: "a"})], rows, NOW_MS).changes
    assert change.node_micro_usd_per_hour == 18_000_000
    (change,) = price_update([spot()], rows, NOW_MS).changes
    assert change.node_micro_usd_per_hour == 21_000_000


def test_a_commitment_has_the_price_of_its_term() -> None:
    reserved = replace(spot(**{TERM_YEARS: "3"}), market=Market.RESERVED)
    rows = [
        row(n * 10_000_000, market=Market.RESERVED, term_years=n, source=PriceSource.QUOTED)
        for n in (1, 3)
    ]
    (change,) = price_update([reserved], rows, NOW_MS).changes
    assert change.node_micro_usd_per_hour == 30_000_000


@pytest.mark.parametrize(
    ("fetched", "reason"),
    [
        (row(21_000_000, as_of_ms=NOW_MS - DAY_MS - HOUR_MS), "was read 1 d 1 h ago"),
        (row(21_000_000, as_of_ms=NOW_MS + 2 * HOUR_MS), "is dated 2 h from now"),
        (row(2_100_000_000), "$20.00 to $2,100.00 an hour, more than 100 times"),
        (row(100_000), "$20.00 to $0.10 an hour, more than 100 times"),
        (row(-21_000_000), "has the price -$21.00 an hour"),
        (row(0), "has the price $0.00 an hour"),
        (row(21_000_000, currency="CNY"), "is priced in CNY; only US dollars"),
        (row(21_000_000, source=PriceSource.ESTIMATED), "is only estimated"),
        (
            row(21_000_000, instance_type="p4d.24xlarge"),
            "no price of p5.48xlarge spot in us-east-1",
        ),
        (row(21_000_000, region="eu-west-1"), "no price of p5.48xlarge spot in us-east-1"),
        (row(21_000_000, market=Market.ON_DEMAND), "no price of p5.48xlarge spot in us-east-1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_implausible_price_is_rejected_with_a_reason(fetched: object, reason: str) -> None:
    update = price_update([spot()], [fetched], NOW_MS)  # type: ignore[list-item]
    assert update.changes == ()
    (refused,) = update.refused
    assert refused.pool == "spot" and reason in refused.reason
    assert str(refused).startswith("spot: ")


def test_a_pool_without_a_region_is_rejected() -> None:
    regionless = replace(spot(), labels={INSTANCE_TYPE: "p5.48xlarge"})
    (refused,) = price_update([regionless], [row(21_000_000)], NOW_MS).refused
    assert "but no topology.kubernetes.io/region" in refused.reason


def test_a_pool_without_a_price_accepts_any() -> None:
    unpriced = replace(spot(), node_micro_usd_per_hour=0)
    assert len(price_update([unpriced], [row(21_000_000)], NOW_MS).changes) == 1


def test_prices_in_dollars_are_preferred() -> None:
    rows = [row(150_000_000, currency="CNY"), row(21_000_000)]
    (change,) = price_update([spot()], rows, NOW_MS).changes
    assert change.node_micro_usd_per_hour == 21_000_000
