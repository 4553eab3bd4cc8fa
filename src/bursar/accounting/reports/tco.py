"""What owned hardware costs an hour: bought, housed, fed, kept running, and worth something at the end.

A node costs the same whether or not it is used, so the rate of a pool is that of every hour. Idle hours
are charged to the idle account; dividing the rate by a utilisation as well would bill them twice.
Utilisation comes in where owned hardware is compared with the cloud, which is paid by the hour.
Fractions are exact until they become whole micro-dollars.
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
    """One node, all of it: amounts in micro-dollars, times and powers in thousandths of their unit.

    ``capex_micro_usd`` is the node with its part of network and storage. ``power_watts`` is what it draws on
    average and is paid for; ``space_watts`` what it may draw at most and is housed for.
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
        """All of it, spread evenly over its life."""
        lost = Fraction(self.capex_micro_usd * (PERMILLE - self.residual_permille), PERMILLE)
        return lost * MONTHS_PER_YEAR / self.life_months + self.running_micro_usd_per_year()

    def running_micro_usd_per_year(self) -> Fraction:
        """What is paid year by year, once it is bought."""
        kwh = Fraction(self.power_watts * self.pue_milli * HOURS_PER_YEAR, PERMILLE * MILLI)
        kw_months = Fraction(self.space_watts * MONTHS_PER_YEAR, PERMILLE)
        return (
            self.support_micro_usd_per_year
            + kwh * self.micro_usd_per_kwh
            + kw_months * self.space_micro_usd_per_kw_month
            + self.staff_micro_usd_per_year
        )

    def node_micro_usd_per_hour(self) -> int:
        """The rate of its pool: what every hour costs, used or not."""
        return round(self.yearly_micro_usd() / HOURS_PER_YEAR)

    def used_micro_usd_per_hour(self, utilisation_permille: int) -> int:
        """What an hour of use costs when so many of a thousand hours are used; for comparisons."""
        return round(self.yearly_micro_usd() * PERMILLE / (HOURS_PER_YEAR * utilisation_permille))


def break_even_permille(fixed_micro_usd_per_hour: int, used_micro_usd_per_hour: int) -> int | None:
    """From which utilisation on paying for every hour is cheaper than paying for the used ones alone.

    Owned against rented, or a commitment against on demand. None when it never is: a full year of
    every hour rented is still cheaper.
    """
    if used_micro_usd_per_hour <= 0 or fixed_micro_usd_per_hour > used_micro_usd_per_hour:
        return None
    return -(-fixed_micro_usd_per_hour * PERMILLE // used_micro_usd_per_hour)


@dataclass(frozen=True, slots=True, kw_only=True)
class TcoOption:
    """The same hours rented: what a node-hour costs, and how many of a thousand hours are needed."""

    rented_micro_usd_per_hour: int
    utilisation_permille: int
    discount_permille: int = 100


def net_present_micro_usd(node: OwnedNode, instead: TcoOption) -> int:
    """What buying is worth today beside renting: above zero, buying pays.

    Money of later years is worth less by the discount, year by year; a last year may be a part of one.
    The residual comes back at the end.
    """
    used_hours = Fraction(HOURS_PER_YEAR * instead.utilisation_permille, PERMILLE)
    saved = used_hours * instead.rented_micro_usd_per_hour - node.running_micro_usd_per_year()
    growth = 1 + Fraction(instead.discount_permille, PERMILLE)
    years, months = divmod(node.life_months, MONTHS_PER_YEAR)
    worth = Fraction(-node.capex_micro_usd)
    for year in range(1, years + 1):
        worth += saved / growth**year
    last = years
    if months:
        last = years + 1
        worth += saved * Fraction(months, MONTHS_PER_YEAR) / growth**last
    residual = Fraction(node.capex_micro_usd * node.residual_permille, PERMILLE)
    return round(worth + residual / growth**last)


def months_to_pay_back(node: OwnedNode, instead: TcoOption) -> int | None:
    """After how many months what is saved exceeds what was paid; None when not within its life."""
    used_hours = Fraction(HOURS_PER_YEAR * instead.utilisation_permille, PERMILLE)
    saved = used_hours * instead.rented_micro_usd_per_hour - node.running_micro_usd_per_year()
    if saved <= 0:
        return None
    months = -(-node.capex_micro_usd * MONTHS_PER_YEAR // saved)
    return int(months) if months <= node.life_months else None
