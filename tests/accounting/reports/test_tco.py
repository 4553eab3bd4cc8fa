"""The rate of owned hardware, compared with renting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursar.accounting.reports.tco import (
    OwnedNode,
    TcoOption,
    break_even_permille,
    months_to_pay_back,
    net_present_micro_usd,
)
from bursar.model.units import USD_MICRO

H100_SERVER = OwnedNode(
    capex_micro_usd=350_000 * USD_MICRO,
    residual_permille=200,
    life_months=48,
    support_micro_usd_per_year=32_000 * USD_MICRO,
    power_watts=7_000,
    pue_milli=1_500,
    micro_usd_per_kwh=98_000,
    space_watts=10_200,
    space_micro_usd_per_kw_month=200 * USD_MICRO,
    staff_micro_usd_per_year=18_000 * USD_MICRO,
)
"""Eight H100: bought for $350,000, worth a fifth of it after four years."""


def test_the_worked_example_of_an_h100_server() -> None:
    node = H100_SERVER
    assert round(node.running_micro_usd_per_year()) == 83_494_040_000
    assert round(node.yearly_micro_usd()) == 153_494_040_000, "about $153,500 a year"
    assert node.node_micro_usd_per_hour() == 17_522_151
    assert round(node.node_micro_usd_per_hour() / 8 / USD_MICRO, 2) == 2.19


@pytest.mark.parametrize(
    ("cloud", "micro_usd_per_gpu_hour", "percent"),
    [
        ("Azure on demand", 12_290_000, 18),
        ("Google Cloud on demand", 10_980_000, 20),
        ("AWS on demand", 6_880_000, 32),
        ("a small cloud", 3_990_000, 55),
        ("AWS for three years", 3_050_000, 72),
        ("AWS spot", 2_590_000, 85),
    ],
)
def test_break_even_with_the_clouds(cloud: str, micro_usd_per_gpu_hour: int, percent: int) -> None:
    owned = H100_SERVER.node_micro_usd_per_hour()
    result = break_even_permille(owned, 8 * micro_usd_per_gpu_hour)
    assert result is not None and round(result / 10) == percent, cloud


def test_a_commitment_breaks_even_at_its_fraction_of_the_price() -> None:
    assert break_even_permille(38_560_000, 55_040_000) == 701
    assert break_even_permille(24_430_000, 55_040_000) == 444
    assert break_even_permille(60_000_000, 55_040_000) is None, "more expensive than on demand"
    assert break_even_permille(1, 0) is None, "nothing is cheaper than free"


def test_a_used_hour_costs_twice_as_much_at_half_the_utilisation() -> None:
    whole = H100_SERVER.used_micro_usd_per_hour(1_000)
    assert whole == H100_SERVER.node_micro_usd_per_hour()
    assert abs(H100_SERVER.used_micro_usd_per_hour(500) - 2 * whole) <= 1


def test_net_present_value_and_pay_back_time() -> None:
    """By hand: a yearly rent of $8,760 is saved for two years, discounted at 10 % a year."""
    node = OwnedNode(capex_micro_usd=13_140 * USD_MICRO, life_months=24)
    rent = TcoOption(rented_micro_usd_per_hour=USD_MICRO, utilisation_permille=1_000)
    assert net_present_micro_usd(node, rent) == 2_063_305_785
    back = replace(node, residual_permille=100)
    assert net_present_micro_usd(back, rent) == 2_063_305_785 + 1_085_950_413
    shorter = replace(node, life_months=18)
    assert net_present_micro_usd(shorter, rent) == -1_556_528_926
    assert months_to_pay_back(node, rent) == 18
    assert months_to_pay_back(replace(node, life_months=17), rent) is None
    assert months_to_pay_back(node, replace(rent, utilisation_permille=0)) is None


@given(
    capex=st.integers(1, 10**12),
    life=st.integers(1, 120),
    residual=st.integers(0, 999),
    watts=st.integers(0, 100_000),
    more=st.integers(1, 10**10),
)
def test_more_of_anything_but_residual_costs_more(
    capex: int, life: int, residual: int, watts: int, more: int
) -> None:
    node = OwnedNode(
        capex_micro_usd=capex,
        life_months=life,
        residual_permille=residual,
        power_watts=watts,
        micro_usd_per_kwh=100_000,
    )
    year = node.yearly_micro_usd()
    assert replace(node, capex_micro_usd=capex + more).yearly_micro_usd() > year
    assert replace(node, power_watts=watts + more).yearly_micro_usd() > year
    assert replace(node, staff_micro_usd_per_year=more).yearly_micro_usd() > year
    assert replace(node, life_months=life + more).yearly_micro_usd() < year
    assert replace(node, residual_permille=residual + 1).yearly_micro_usd() < year
