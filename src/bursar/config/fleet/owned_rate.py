"""What a node of one's own costs an hour, from what it cost to buy and costs to run."""

from __future__ import annotations

from bursar.accounting.reports.tco import OwnedNode
from bursar.config.fleet import fleet_keys
from bursar.config.yaml.located_value import LocatedValue
from bursar.model.fleet.fleet import Market
from bursar.model.units import MILLI, USD_MICRO

MOST_YEARS = 50
SUPPORT_PERCENT = 10
"""Of the price of the hardware, each year, where nothing else is said."""
PUE_MILLI = 1_500
MICRO_USD_PER_KWH = 98_000
"""United States, industry, July 2026."""
DOLLARS, WATT, MONTHS = "micro-dollar", "watt", 12


def read_owned(entry: LocatedValue, market: Market) -> int:
    """The amortised rate of a node, in micro-dollars an hour. It is never 0."""
    if market is not Market.OWNED:
        fix = "Write usd_per_node_hour instead, or 'market: owned'."
        raise entry.wrong(f"stands in a pool whose market is {market}", fix, "two-choices")
    said = entry.fields(fleet_keys.OWNED)
    missing = [key for key in ("capex_usd", "life_years", "power_kw") if key not in said]
    if missing:
        text = ", ".join(repr(key) for key in missing)
        raise entry.wrong(f"lacks {text}", "Write it below 'owned'.", "missing-key")
    capex = _more_than_nothing(said["capex_usd"])

    def amount(key: str, per_one: int, unit: str, usual: int = 0) -> int:
        return said[key].in_units(per_one, unit) if key in said else usual

    power_watts = amount("power_kw", MILLI, WATT)
    node = OwnedNode(
        capex_micro_usd=capex,
        life_months=_months(said["life_years"]),
        residual_permille=_part(said.get("residual_percent")),
        support_micro_usd_per_year=amount(
            "support_usd_per_year", USD_MICRO, DOLLARS, capex * SUPPORT_PERCENT // 100
        ),
        power_watts=power_watts,
        pue_milli=_pue(said.get("pue")),
        micro_usd_per_kwh=amount("usd_per_kwh", USD_MICRO, DOLLARS, MICRO_USD_PER_KWH),
        space_watts=amount("space_kw", MILLI, WATT, power_watts),
        space_micro_usd_per_kw_month=amount("space_usd_per_kw_month", USD_MICRO, DOLLARS),
        staff_micro_usd_per_year=amount("staff_usd_per_year", USD_MICRO, DOLLARS),
    )
    return max(1, node.node_micro_usd_per_hour())


def _more_than_nothing(entry: LocatedValue) -> int:
    micro_usd = entry.in_units(USD_MICRO, DOLLARS)
    if not micro_usd:
        fix = "Write what a node cost with its part of network and storage."
        raise entry.wrong(
            "is 0, and hardware at $0 makes every comparison wrong", fix, "out-of-range"
        )
    return micro_usd


def _months(entry: LocatedValue) -> int:
    months = entry.in_units(MONTHS, "month")
    if not 0 < months <= MOST_YEARS * MONTHS:
        fix = f"Write the years it is written off over, at most {MOST_YEARS}."
        raise entry.wrong(f"is {months} months", fix, "out-of-range")
    return months


def _part(entry: LocatedValue | None) -> int:
    permille = entry.in_units(10, "tenth of a percent") if entry else 0
    if entry is not None and permille >= MILLI:
        fix = "Write the percent of its price that it is sold for at the end, less than 100."
        raise entry.wrong(f"is {permille / 10:g}", fix, "out-of-range")
    return permille


def _pue(entry: LocatedValue | None) -> int:
    pue_milli = entry.in_units(MILLI, "thousandth") if entry else PUE_MILLI
    if entry is not None and pue_milli < MILLI:
        fix = "Write the power of the building over that of the machines, 1 or more."
        raise entry.wrong(f"is {pue_milli / MILLI:g}", fix, "out-of-range")
    return pue_milli
