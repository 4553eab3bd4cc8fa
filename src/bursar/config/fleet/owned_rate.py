"""The hourly rate of an owned node, from what it cost to buy and costs to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bursar.accounting.reports.tco import OwnedNode
from bursar.config.yaml.key_tables import (
    USD,
    FileKey,
    KeyTable,
    ValueFormat,
    amount,
    by_field,
    described,
    read_mapping,
)
from bursar.config.yaml.value_readers import InvalidValue, shown
from bursar.model.units import MILLI

MOST_YEARS = 50
SUPPORT_PERCENT = 10
"""Yearly support in percent of the hardware's price, by default."""
MICRO_USD_PER_KWH = 98_000
"""United States, industry, July 2026."""
MONTHS = 12

_WATTS = amount(MILLI, "watt")


def _limited(
    unit: ValueFormat, is_allowed: Callable[[int], bool], fix: str, problem: str = ""
) -> ValueFormat:
    """An amount within limits; ``problem`` may name the amount as ``{}``."""

    def read(value: Any) -> int:
        units: int = unit.read(value)
        if not is_allowed(units):
            raise InvalidValue(problem.format(units) or f"is {shown(value)}", fix, "out-of-range")
        return units

    return ValueFormat(read, unit.schema)


OWNED = KeyTable(
    name="owned",
    keys={
        "capex_usd": FileKey(
            "the price of one node, with its share of network and storage",
            _limited(
                USD,
                lambda micro_usd: micro_usd > 0,
                "Write the price of a node, with its share of network and storage.",
                "is 0, and hardware at $0 makes every comparison wrong",
            ),
            "capex_micro_usd",
        ),
        "life_years": FileKey(
            "years over which it is depreciated",
            _limited(
                amount(MONTHS, "month"),
                lambda months: 0 < months <= MOST_YEARS * MONTHS,
                f"Write the years over which it is depreciated, at most {MOST_YEARS}.",
                "is {} months",
            ),
            "life_months",
        ),
        "residual_percent": FileKey(
            "resale value after life_years, in percent of capex_usd; default: 0",
            _limited(
                amount(10, "tenth of a percent"),
                lambda permille: permille < MILLI,
                "Write its resale value in percent of its price, less than 100.",
            ),
            "residual_permille",
        ),
        "support_usd_per_year": FileKey(
            "support of one node; default: 10 % of capex_usd",
            USD,
            "support_micro_usd_per_year",
        ),
        "power_kw": FileKey("average power of one node", _WATTS, "power_watts"),
        "pue": FileKey(
            "power of the building divided by that of the machines; default: 1.5",
            _limited(
                amount(MILLI, "thousandth"),
                lambda pue_milli: pue_milli >= MILLI,
                "Write the power of the building divided by that of the machines, 1 or more.",
            ),
            "pue_milli",
        ),
        "usd_per_kwh": FileKey("price of electricity; default: 0.098", USD, "micro_usd_per_kwh"),
        "space_kw": FileKey(
            "maximum power of one node, by which space is billed; default: power_kw",
            _WATTS,
            "space_watts",
        ),
        "space_usd_per_kw_month": FileKey(
            "price of space for each kW and month; default: 0", USD, "space_micro_usd_per_kw_month"
        ),
        "staff_usd_per_year": FileKey(
            "one node's share of staff costs; default: 0", USD, "staff_micro_usd_per_year"
        ),
    },
    required=("capex_usd", "life_years", "power_kw"),
)


def _rate(value: Any) -> int:
    """Micro-dollars an hour, at least 1."""
    costs = by_field(read_mapping(value, OWNED), OWNED)
    defaults = {
        "support_micro_usd_per_year": costs["capex_micro_usd"] * SUPPORT_PERCENT // 100,
        "micro_usd_per_kwh": MICRO_USD_PER_KWH,
        "space_watts": costs["power_watts"],
    }
    return max(1, OwnedNode(**(defaults | costs)).node_micro_usd_per_hour())


OWNED_RATE = ValueFormat(_rate, described(OWNED))
