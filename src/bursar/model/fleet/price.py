"""Machine prices of clouds with source and time, before they become prices of pools."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from bursar.model.fleet.fleet import Market
from bursar.model.units import USD_MICRO

USD = "USD"
HOURS_PER_YEAR = 8_760
MOST_DIGITS = 30
"""No price is longer; a longer one could cost any amount of time and memory to convert."""


class PriceSource(StrEnum):
    """Where a price comes from."""

    QUOTED = "quoted"
    """The cloud's price list or billing catalogue."""
    OBSERVED = "observed"
    """Seen on the spot market."""
    PUBLISHED = "published"
    """A rate of the cloud that a third party has published."""
    ESTIMATED = "estimated"
    """A usual fraction of another price; not an offer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineShape:
    """An instance type: what is in it. ``gpu_model`` is a name of our catalog, empty for none or unknown."""

    cloud: str
    instance_type: str
    gpu_model: str
    gpu_milli: int
    cpu_milli: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """The hourly price of one machine at the time ``as_of_ms``.

    ``term_years`` is the length of a commitment. ``low_micro_usd`` and ``high_micro_usd`` are the
    cheapest and the dearest zone where one price stands for several.
    """

    cloud: str
    region: str
    instance_type: str
    market: Market
    node_micro_usd_per_hour: int
    source: PriceSource
    as_of_ms: int
    term_years: int = 0
    zone: str = ""
    low_micro_usd: int | None = None
    high_micro_usd: int | None = None
    currency: str = USD
    note: str = ""

    @property
    def what(self) -> str:
        """What is priced: ``p5.48xlarge spot in us-east-1``."""
        term = f" for {self.term_years} y" if self.term_years else ""
        return f"{self.instance_type} {self.market}{term} in {self.zone or self.region}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPrice:
    """An unusable price: its location (file and line, or SKU), and what is wrong."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceReading:
    """What was read: the prices, and what could not be understood."""

    rows: tuple[PriceRow, ...]
    bad: tuple[BadPrice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPoint:
    """The spot price from this time on."""

    at_ms: int
    node_micro_usd_per_hour: int


def micro_usd_of(text: str) -> int:
    """Parses dollars to the nearest micro-dollar; ``ValueError`` if the text is not a price."""
    try:
        amount = Decimal(text) if len(text) <= MOST_DIGITS else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or abs(amount.adjusted()) > MOST_DIGITS:
        raise ValueError(f"{text[:MOST_DIGITS]!r} is not a price")
    return round(amount * USD_MICRO)
