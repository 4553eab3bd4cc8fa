"""Replays one job under one rule, tick by tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Policy,
    SpotMarket,
)
from bursar.model.errors import BrokenInvariant
from bursar.model.units import HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRun:
    """The result of a replay; ``finished_ms`` is None if the job missed its deadline."""

    cost_micro_usd: int
    on_demand_ms: int
    spot_ms: int
    change_overs: int
    losses: int
    lost_ms: int
    finished_ms: int | None


class _Job:
    """A job during its replay; each started tick is billed in full."""

    def __init__(self, terms: DeadlineTerms, save_every_ms: int) -> None:
        self.terms = terms
        self.save_every_ms = save_every_ms
        self.remaining_ms = terms.work_ms
        self.pending_ms = 0
        self.place = WAIT
        self.done_here_ms = 0
        self.paid = self.on_demand_ticks = self.spot_ticks = 0
        self.change_overs = self.losses = self.lost_ms = 0

    def lose_machine(self) -> None:
        """Loses the spot machine and the work since the last checkpoint."""
        self.losses += 1
        if self.save_every_ms:
            unsaved_ms = self.done_here_ms % self.save_every_ms
            self.remaining_ms += unsaved_ms
            self.lost_ms += unsaved_ms
        self.place, self.pending_ms = WAIT, 0

    def spend_tick(self, place: str, price_micro_usd: int) -> None:
        if place != self.place:
            self.pending_ms = self.terms.change_over_ms
            self.change_overs += 1
            self.done_here_ms = 0
            self.place = place
        tick_ms = self.terms.tick_ms
        gained_ms = max(0, tick_ms - self.pending_ms)
        self.pending_ms = max(0, self.pending_ms - tick_ms)
        self.remaining_ms -= gained_ms
        self.done_here_ms += gained_ms
        self.paid += price_micro_usd
        if place == ON_DEMAND:
            self.on_demand_ticks += 1
        else:
            self.spot_ticks += 1


def replay(
    terms: DeadlineTerms, market: Sequence[SpotMarket], policy: Policy, *, save_every_ms: int = 0
) -> SpotRun:
    """Runs the job from the market's first tick to its end or its deadline.

    ``save_every_ms`` is the work between two checkpoints; 0 means that a lost machine costs only the
    change-over, as in published studies.
    """
    job = _Job(terms, save_every_ms)
    finished_ms = None
    tick_ms = terms.tick_ms
    for tick, now in zip(range(terms.ticks), market, strict=False):
        if job.place != WAIT and job.place != ON_DEMAND and now.offer_of(job.place) is None:
            job.lose_machine()
        progress = DeadlineProgress(tick * tick_ms, job.remaining_ms, job.pending_ms, job.place)
        place = policy(terms, progress, now)
        if place == WAIT:
            job.place, job.pending_ms = WAIT, 0
        elif place == ON_DEMAND:
            job.spend_tick(place, terms.on_demand_micro_usd)
        else:
            offer = now.offer_of(place)
            if offer is None:
                raise BrokenInvariant(f"a rule chose {place}, which has no capacity at tick {tick}")
            job.spend_tick(place, offer.price_micro_usd)
        if job.remaining_ms <= 0:
            finished_ms = (tick + 1) * tick_ms
            break
    return SpotRun(
        cost_micro_usd=round(job.paid * tick_ms / HOUR_MS),
        on_demand_ms=job.on_demand_ticks * tick_ms,
        spot_ms=job.spot_ticks * tick_ms,
        change_overs=job.change_overs,
        losses=job.losses,
        lost_ms=job.lost_ms,
        finished_ms=finished_ms,
    )
