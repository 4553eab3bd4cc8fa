"""The packaged price table: complete, dated, with warnings about estimates and old prices."""

from __future__ import annotations

from collections import Counter

import pytest

from bursar.catalog.gpu_models import GPU_MODELS
from bursar.catalog.prices.price_book import PriceBook, PriceQuery, middle_row
from bursar.model.calendar import day_of_date
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.fleet.price import PriceRow, PriceSource, micro_usd_of
from bursar.model.units import DAY_MS
from bursar.wiring.price_refresh import packaged_prices

APRIL_28_2025_MS = day_of_date("2025-04-28") * DAY_MS
AUGUST_22_2026_MS = day_of_date("2026-08-22") * DAY_MS
NOW_MS = AUGUST_22_2026_MS + 10 * DAY_MS


def row(micro_usd: int, zone: str = "", **changed: object) -> PriceRow:
    facts: dict[str, object] = {
        "cloud": "aws",
        "region": "us-east-1",
        "instance_type": "p5.48xlarge",
        "market": Market.SPOT,
        "node_micro_usd_per_hour": micro_usd,
        "source": PriceSource.OBSERVED,
        "as_of_ms": NOW_MS,
        "zone": zone,
    }
    return PriceRow(**{**facts, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "micro_usd", "source"),
    [
        (("us-east-1", "p5.48xlarge", Market.ON_DEMAND, 0), 55_040_000, PriceSource.QUOTED),
        (("us-east-1", "p5.48xlarge", Market.SPOT, 0), 20_738_700, PriceSource.OBSERVED),
        (("us-east-1", "p5.48xlarge", Market.RESERVED, 3), 24_430_000, PriceSource.PUBLISHED),
        (("us-west-2", "p5.48xlarge", Market.RESERVED, 3), 23_667_200, PriceSource.ESTIMATED),
        (("us-central1", "a2-highgpu-8g", Market.RESERVED, 1), 18_513_873, PriceSource.ESTIMATED),
        (("eastus", "Standard_NC40ads_H100_v5", Market.SPOT, 0), 1_291_300, PriceSource.ESTIMATED),
        (
            ("eastus", "Standard_ND96isr_H100_v5", Market.RESERVED, 1),
            63_440_000,
            PriceSource.PUBLISHED,
        ),
        (("us-central1", "a4-highgpu-8g", Market.SPOT, 0), 39_633_600, PriceSource.OBSERVED),
    ],
)
def test_quotes_have_price_and_source(
    query: tuple[str, str, Market, int], micro_usd: int, source: PriceSource
) -> None:
    region, kind, market, years = query
    wanted = PriceQuery(region=region, instance_type=kind, market=market, term_years=years)
    quote = packaged_prices().find(wanted, NOW_MS)
    assert (quote.node_micro_usd_per_hour, quote.row.source) == (micro_usd, source)
    assert quote.is_estimated is (source is PriceSource.ESTIMATED)


def test_the_table_is_complete_and_valid() -> None:
    rows = list(packaged_prices().rows())
    assert Counter(row.cloud for row in rows) == {"aws": 203, "gcp": 143, "azure": 124}
    known = {model.name for model in GPU_MODELS}
    for one in rows:
        shape = packaged_prices().shape(one.instance_type)
        assert shape is not None and shape.gpu_model in known and shape.gpu_milli > 0
        assert one.node_micro_usd_per_hour > 0 and one.currency == "USD"
        assert one.as_of_ms >= APRIL_28_2025_MS
        assert (one.term_years > 0) is (one.market is Market.RESERVED)
        if one.low_micro_usd is not None and one.high_micro_usd is not None:
            assert one.low_micro_usd <= one.node_micro_usd_per_hour <= one.high_micro_usd


def test_every_estimated_or_old_price_has_a_warning() -> None:
    estimated = old = 0
    for one in packaged_prices().rows():
        wanted = PriceQuery(
            region=one.region,
            instance_type=one.instance_type,
            market=one.market,
            term_years=one.term_years,
        )
        quote = packaged_prices().find(wanted, NOW_MS)
        estimated += quote.is_estimated
        old += quote.is_stale
        assert (
            any("estimated" in one_warning for one_warning in quote.warnings) is quote.is_estimated
        )
        assert any("days ago" in one_warning for one_warning in quote.warnings) is quote.is_stale
    assert estimated > 200 and old > 100


def test_spot_prices_are_stale_after_a_day() -> None:
    wanted = PriceQuery(region="us-east-1", instance_type="p5.48xlarge", market=Market.SPOT)
    assert not packaged_prices().find(wanted, AUGUST_22_2026_MS).is_stale
    later = packaged_prices().find(wanted, NOW_MS)
    assert later.warnings == (
        "p5.48xlarge spot in us-east-1 was read 10 days ago; spot prices count as fresh for 1 day."
        " Fetch prices.",
    )


def test_different_zone_prices_are_a_warning() -> None:
    wanted = PriceQuery(region="us-east-1", instance_type="g6.48xlarge", market=Market.SPOT)
    quote = packaged_prices().find(wanted, AUGUST_22_2026_MS)
    assert quote.warnings == (
        "g6.48xlarge spot in us-east-1 costs $3.58 to $13.35 an hour by zone; this is the median.",
    )


def test_the_median_zone_is_used_unless_one_is_named() -> None:
    zones = [row(3, "a"), row(1, "b"), row(2, "c"), row(9, "d")]
    book = PriceBook(zones)
    wanted = PriceQuery(region="us-east-1", instance_type="p5.48xlarge", market=Market.SPOT)
    assert book.find(wanted, NOW_MS).node_micro_usd_per_hour == 3
    named = PriceQuery(
        region="us-east-1", instance_type="p5.48xlarge", market=Market.SPOT, zone="b"
    )
    assert book.find(named, NOW_MS).node_micro_usd_per_hour == 1
    assert middle_row(zones, "e") is None


@pytest.mark.parametrize(
    ("region", "kind", "market", "fix"),
    [
        ("us-east-1", "p5.48xlarg", Market.SPOT, "Did you mean 'p5.48xlarge'"),
        ("mars-1", "p4de.24xlarge", Market.SPOT, "It is known in us-east-1."),
        ("us-east-2", "p5e.48xlarge", Market.ON_DEMAND, "Known there: spot."),
        ("us-east-1", "qqqq", Market.SPOT, "Import or fetch prices"),
    ],
)
def test_an_unknown_price_is_an_error_with_a_fix(
    region: str, kind: str, market: Market, fix: str
) -> None:
    with pytest.raises(UserError) as caught:
        packaged_prices().find(PriceQuery(region=region, instance_type=kind, market=market), NOW_MS)
    assert caught.value.code == "unknown-price" and caught.value.fix.startswith(fix)


@pytest.mark.parametrize("text", ["", "abc", "NaN", "Infinity", "1" * 31, "1e99999"])
def test_an_invalid_price_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a price"):
        micro_usd_of(text)


def test_prices_are_read_to_the_micro_dollar() -> None:
    assert micro_usd_of("55.0400000000") == 55_040_000
    assert micro_usd_of("0.0000004") == 0
    assert micro_usd_of("-1") == -1_000_000
