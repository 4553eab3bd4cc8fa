"""The inputs and the result of a deadline rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from bursar.core.deadline.availability import AvailabilityEstimate
from bursar.model.errors import UserError

Location: TypeAlias = str
"""Where a job runs during a tick: the name of a spot pool, ``ON_DEMAND``, or ``WAIT``."""

WAIT: Final[Location] = ""
ON_DEMAND: Final[Location] = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineTerms:
    """What does not change while a job runs. Prices are per hour.

    ``change_over_ms`` is the paid time without progress after each start or move.
    ``rework_ms`` is the most work that the loss of a spot machine can undo.
    """

    work_ms: int
    deadline_ms: int
    change_over_ms: int
    tick_ms: int
    on_demand_micro_usd: int
    rework_ms: int = 0

    def __post_init__(self) -> None:
        if min(self.work_ms, self.tick_ms, self.on_demand_micro_usd) <= 0:
            raise UserError(
                "a job with a deadline needs work, a tick and an on-demand price above 0.",
                fix="Give the hours of work and the price of an hour.",
                code="bad-deadline-terms",
            )
        if self.work_ms + self.change_over_ms > self.ticks * self.tick_ms:
            raise UserError(
                f"{self.work_ms / 3_600_000:g} h of work and {self.change_over_ms / 3_600_000:g} h to "
                f"start do not fit in the {self.deadline_ms / 3_600_000:g} h to the deadline, "
                "even on demand.",
                fix="Give a later deadline or less work.",
                code="deadline-too-soon",
            )

    @property
    def ticks(self) -> int:
        """Whole ticks before the deadline; a tick that ends after it does not count."""
        return self.deadline_ms // self.tick_ms


class DeadlineProgress(NamedTuple):
    """A job's progress at the start of a tick; a lost spot machine counts as ``WAIT``."""

    elapsed_ms: int
    remaining_ms: int
    pending_ms: int
    location: Location


class SpotOffer(NamedTuple):
    """A spot pool with capacity now, its hourly price and its availability."""

    pool: str
    price_micro_usd: int
    availability: AvailabilityEstimate


class SpotMarket(NamedTuple):
    """The spot pools with capacity now, by name, and the availability of all pools combined.

    ``price_micro_usd`` is the lowest current price or, without offers, the last known; 0 if none is.
    """

    offers: tuple[SpotOffer, ...]
    combined: AvailabilityEstimate
    price_micro_usd: int

    def offer_of(self, pool: Location) -> SpotOffer | None:
        """The offer of one pool, if it has capacity."""
        for offer in self.offers:
            if offer.pool == pool:
                return offer
        return None


Policy: TypeAlias = Callable[[DeadlineTerms, DeadlineProgress, SpotMarket], Location]
