"""Total cost of ownership: the hourly rate of owned hardware.

A node costs the same whether it is used or not, so the rate applies to every hour. Idle hours are charged to
the idle account; dividing the rate by the utilisation would bill them twice. Utilisation matters only in the
comparison with rented nodes, which are paid by the hour. Fractions are exact until the final rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bursar.model.units import MILLI

HOURS_PER_YEAR = 8_760
MONTHS_PER_YEAR = 12
PERMILLE = 1_000
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedNode:
    """All costs of one node.

    ``capex_micro_usd`` includes its share of network and storage. ``power_watts`` is the average draw, which
    is paid as energy; ``space_watts`` the maximum draw, which is paid as space.
    """

    capex_micro_usd: int
    life_months: int
    residual_permille: int = 0
    support_micro_usd_per_year: int = 0
    power_watts: int = 0
    pue_milli: int = 1_500
    micro_usd_per_kwh: int = 0
    space_watts: int = 0
    space_micro_usd_per_kw_month: int = 0
    staff_micro_usd_per_year: int = 0

    def yearly_micro_usd(self) -> Fraction:
        """Depreciation and running costs of a year."""
        depreciation = Fraction(
            self.capex_micro_usd * (PERMILLE - self.residual_permille), PERMILLE
        )
        yearly = depreciation * MONTHS_PER_YEAR / self.life_months
        return yearly + self.running_micro_usd_per_year()

    def running_micro_usd_per_year(self) -> Fraction:
        """Support, energy, space and staff of a year."""
        kwh = Fraction(self.power_watts * self.pue_milli * HOURS_PER_YEAR, PERMILLE * MILLI)
        kw_months = Fraction(self.space_watts * MONTHS_PER_YEAR, PERMILLE)
        return (
            self.support_micro_usd_per_year
            + kwh * self.micro_usd_per_kwh
            + kw_months * self.space_micro_usd_per_kw_month
            + self.staff_micro_usd_per_year
        )

    def node_micro_usd_per_hour(self) -> int:
        """The rate of its pool, for both used and idle hours."""
        return round(self.yearly_micro_usd() / HOURS_PER_YEAR)

    def used_micro_usd_per_hour(self, utilisation_permille: int) -> int:
        """Cost of a used hour at this utilisation, for comparisons."""
        return round(self.yearly_micro_usd() * PERMILLE / (HOURS_PER_YEAR * utilisation_permille))


def break_even_permille(fixed_micro_usd_per_hour: int, used_micro_usd_per_hour: int) -> int | None:
    """The utilisation from which paying for every hour is cheaper than paying for used hours.

    For owned against rented nodes, or a commitment against on-demand. None if renting every hour is still
    cheaper.
    """
    if used_micro_usd_per_hour <= 0 or fixed_micro_usd_per_hour > used_micro_usd_per_hour:
        return None
    return -(-fixed_micro_usd_per_hour * PERMILLE // used_micro_usd_per_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class TcoOption:
    """Renting instead: the price of a node-hour, the utilisation and the discount rate."""

    rented_micro_usd_per_hour: int
    utilisation_permille: int
    discount_permille: int = 100


def net_present_micro_usd(node: OwnedNode, rented: TcoOption) -> int:
    """Net present value of buying instead of renting: positive if buying is cheaper.

    Savings are discounted year by year; the last year may be incomplete. The residual value is received at
    the end.
    """
    saved = _saved_per_year(node, rented)
    growth = 1 + Fraction(rented.discount_permille, PERMILLE)
    years, months = divmod(node.life_months, MONTHS_PER_YEAR)
    value = Fraction(-node.capex_micro_usd)
    for year in range(1, years + 1):
        value += saved / growth**year
    last = years
    if months:
        last = years + 1
        value += saved * Fraction(months, MONTHS_PER_YEAR) / growth**last
    residual = Fraction(node.capex_micro_usd * node.residual_permille, PERMILLE)
    return round(value + residual / growth**last)


def _saved_per_year(node: OwnedNode, rented: TcoOption) -> Fraction:
    used_hours = Fraction(HOURS_PER_YEAR * rented.utilisation_permille, PERMILLE)
    return used_hours * rented.rented_micro_usd_per_hour - node.running_micro_usd_per_year()


def months_to_pay_back(node: OwnedNode, rented: TcoOption) -> int | None:
    """Months until the savings exceed the purchase price; None if not within the node's life."""
    saved = _saved_per_year(node, rented)
    if saved <= 0:
        return None
    months = -(-node.capex_micro_usd * MONTHS_PER_YEAR // saved)
    return int(months) if months <= node.life_months else None
