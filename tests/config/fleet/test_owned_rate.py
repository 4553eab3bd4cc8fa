"""Costs of owned hardware in the fleet file become an hourly rate."""

from __future__ import annotations

import pytest

from bursar.config.fleet.fleet_file import fleet_schema, parse_fleet
from bursar.config.fleet.owned_rate import OWNED
from bursar.model.errors import UserError
from tests.config.fleet.test_fleet_file import ROOT

H100 = (
    "{capex_usd: 350000, life_years: 4, residual_percent: 20, support_usd_per_year: 32000,"
    " power_kw: 7, pue: 1.5, usd_per_kwh: 0.098, space_kw: 10.2, space_usd_per_kw_month: 200,"
    " staff_usd_per_year: 18000}"
)


def rate_of(owned: str, market: str = "owned", more: str = "") -> int:
    text = f"""
clusters: {{here: {{}}}}
pools:
  h100:
    market: {market}
    gpus: h100 x 8
    cpus: 192
    memory_gib: 2048
    nodes: 1
    owned: {owned}
    {more}
tenants: {{team: {{}}}}
"""
    return parse_fleet({"fleet.yaml": text}).fleet.pools[0].node_micro_usd_per_hour


def test_every_key_counts() -> None:
    assert rate_of(H100) == 17_522_151, "$2.19 for each of eight GPUs"


def test_omitted_keys_have_the_documented_defaults() -> None:
    """$100,000 over 5 years is 20,000 a year; support 10,000; 2 kW x 1.5 x 8,760 h x $0.098 = 2,575.44."""
    least = "{capex_usd: 100000, life_years: 5, power_kw: 2}"
    assert rate_of(least) == round((20_000 + 10_000 + 2_575.44) / 8_760 * 1_000_000)
    with_space = least[:-1] + ", space_usd_per_kw_month: 100}"
    assert rate_of(with_space) == round((32_575.44 + 2 * 100 * 12) / 8_760 * 1_000_000)


@pytest.mark.parametrize(
    ("owned", "market", "more", "problem", "code"),
    [
        ("{}", "owned", "", "lacks 'capex_usd', 'life_years', 'power_kw'", "missing-key"),
        (
            "{capex_usd: 0, life_years: 4, power_kw: 1}",
            "owned",
            "",
            "is 0, and hardware at $0 makes every comparison wrong",
            "out-of-range",
        ),
        ("{capex_usd: 1, life_years: 0, power_kw: 1}", "owned", "", "is 0 months", "out-of-range"),
        ("{capex_usd: 1, life_years: 99, power_kw: 1}", "owned", "", "1188 months", "out-of-range"),
        (H100.replace("pue: 1.5", "pue: 0.9"), "owned", "", "'pue' of", "out-of-range"),
        (H100.replace("percent: 20", "percent: 100"), "owned", "", "is 100", "out-of-range"),
        (H100.replace("power_kw: 7", "power_kw: -7"), "owned", "", "is -7", "out-of-range"),
        (H100.replace("power_kw", "watts"), "owned", "", "'watts' is not a key", "unknown-key"),
        (H100, "spot", "", "is given for a pool whose market is spot", "two-choices"),
        (H100, "owned", "usd_per_node_hour: 3", "together with a price by the hour", "two-choices"),
    ],
)
def test_invalid_costs_are_rejected_with_their_location(
    owned: str, market: str, more: str, problem: str, code: str
) -> None:
    with pytest.raises(UserError) as caught:
        rate_of(owned, market, more)
    assert problem in caught.value.problem and caught.value.code == code
    assert caught.value.problem.startswith("fleet.yaml:10:")


def test_a_pool_must_have_a_price_or_costs() -> None:
    text = "clusters: {a: {}}\npools: {b: {market: owned, cpus: 1, memory_gib: 1, nodes: 1}}"
    with pytest.raises(UserError, match="'usd_per_node_hour'"):
        parse_fleet({"fleet.yaml": text})


def test_the_page_and_the_schema_have_every_key() -> None:
    page = (ROOT / "docs" / "fleet-file.md").read_text(encoding="utf-8")
    assert [key for key in OWNED.keys if f"| `{key}` |" not in page] == []
    pool = fleet_schema()["properties"]["pools"]["additionalProperties"]["properties"]
    assert set(pool["owned"]["properties"]) == set(OWNED.keys)
    assert pool["owned"]["additionalProperties"] is False
