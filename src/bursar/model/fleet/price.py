"""What clouds ask for a machine, who says so, and when: before it becomes the price of a pool."""

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
    """How a price is known. Only the first three are somebody's own word."""

    QUOTED = "quoted"
    """The cloud's price list or billing catalogue."""
    OBSERVED = "observed"
    """Seen on the spot market."""
    PUBLISHED = "published"
    """A rate of the cloud's that somebody else has published."""
    ESTIMATED = "estimated"
    """A usual part of another price. Nobody has offered it."""


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
    """What an hour of one machine costs. ``as_of_ms`` is a moment at which this was so.

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
    """A price that could not be used: where it stands (file and line, or SKU), and what is wrong."""

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
    """From this moment on, an hour on the spot market cost so much."""

    at_ms: int
    node_micro_usd_per_hour: int


def micro_usd_of(text: str) -> int:
    """Dollars as somebody else wrote them, to the nearest micro-dollar; ``ValueError`` says why not."""
    try:
        amount = Decimal(text) if len(text) <= MOST_DIGITS else None
    except InvalidOperation:
        amount = None
    if amount is None or not amount.is_finite() or abs(amount.adjusted()) > MOST_DIGITS:
        raise ValueError(f"{text[:MOST_DIGITS]!r} is not a price")
    return round(amount * USD_MICRO)
