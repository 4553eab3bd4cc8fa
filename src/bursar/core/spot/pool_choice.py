"""Chooses and orders the pools that a spot-capable job tries now.

Without a deadline, pools are ordered by expected cost, and similar jobs are spread over spot pools of about
the same cost, because an interruption usually hits a whole pool. With a deadline, a rule of ``core/deadline``
chooses spot, non-spot or waiting; ``deadline_moves.py`` applies it to running jobs. Every cycle chooses anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.core.deadline.eligibility import work_of
from bursar.core.deadline.expected_cost import best_offer, can_wait_one_tick
from bursar.core.deadline.inputs import (
    ON_DEMAND,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    SpotMarket,
    SpotOffer,
)
from bursar.core.draft import Draft
from bursar.core.placement.find_placement import find_placement
from bursar.core.placement.pool_fit import PoolFit, ShapePlan
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord, work_ms
from bursar.core.state.notices import notice_on
from bursar.model.lifecycle import LIVE
from bursar.model.reason import WaitsForSpot
from bursar.model.tenants.policy import DeadlineRule
from bursar.model.units import round_up_run_time_ms

Tiers = tuple[tuple[PoolFit, ...], ...]
PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChoice:
    """The pools to try, best first; or why to wait although there may be capacity."""

    tiers: Tiers
    fits: tuple[PoolFit, ...]
    wait_reason: WaitsForSpot | None = None


def choose_pools(draft: Draft, record: JobRecord) -> PoolChoice:
    """Choose the pools of a waiting job."""
    plan = record.backlog.plan
    choice = DeadlineChoice.of(draft, record) if plan.shape.own else None
    if choice is None:
        return _spread(plan, draft.state.policies.spot.spread_percent)
    location = choice.choose_location()
    if location == WAIT:
        return PoolChoice(tiers=(), fits=(), wait_reason=choice.wait_reason())
    non_spot = tuple(fit for fit in plan.fits if not fit.is_spot)
    spot = tuple(fit for fit in plan.fits if fit.is_spot)
    if location == ON_DEMAND:
        tiers = tuple(tier for tier in plan.tiers if not tier[0].is_spot)
        return PoolChoice(tiers=(*tiers, *((fit,) for fit in spot)), fits=non_spot)
    ordered = (*sorted(spot, key=lambda fit: fit.pool.spec.name != location), *non_spot)
    return PoolChoice(tiers=tuple((fit,) for fit in ordered), fits=ordered)


# -- jobs without a deadline: spread over spot pools -------------------------------------------------


def _spread(plan: ShapePlan, percent: int) -> PoolChoice:
    """Spot pools by expected cost and by their number of similar jobs; then the other pools."""
    first = sorted(
        plan.leading_spot_fits(),
        key=lambda fit: (crowded_price(fit, fit.expected_micro_usd, percent), fit.pool.spec.name),
    )
    rest = tuple(tier for tier in plan.tiers if tier[0] not in first)
    fits = (*first, *(fit for tier in rest for fit in tier))
    return PoolChoice(tiers=(*((fit,) for fit in first), *rest), fits=fits)


def crowded_price(fit: PoolFit, micro_usd: int, percent: int) -> int:
    """A price raised by the fraction of similar jobs in the pool, by ``percent`` if all are there."""
    similar = fit.plan.similar_by_pool
    if not similar:
        return micro_usd
    in_pool, total = similar.get(fit.pool.spec.name, 0), sum(similar.values()) + 1
    return micro_usd + micro_usd * percent * in_pool // (PERCENT * total)


# -- jobs with a deadline --------------------------------------------------------------------------


class WorkProgress(NamedTuple):
    """A job's progress: total, saved and unsaved work, start-up time still pending, location."""

    work_ms: int
    saved_ms: int
    unsaved_ms: int
    pending_ms: int
    location: Location

    @property
    def remaining_ms(self) -> int:
        """Remaining work; at least 1, because a job may run longer than expected."""
        return max(1, self.work_ms - self.saved_ms - self.unsaved_ms)

    @property
    def remaining_if_lost_ms(self) -> int:
        return max(1, self.work_ms - self.saved_ms)


def progress_of(state: FleetState, record: JobRecord, now_ms: int) -> WorkProgress:
    """The progress of a job and its live attempt."""
    work, saved = work_of(record.spec), record.done_ms
    placement = record.placement
    if placement is None or record.state not in LIVE or record.stop_requested:
        return WorkProgress(work, saved, 0, 0, WAIT)
    is_spot = placement.pool in state.spot.pools
    location = placement.pool if is_spot else ON_DEMAND
    if record.started_at_ms is None:
        since_ms = now_ms - record.assigned_at_ms
        pending = change_over_ms(state, record) - since_ms
        return WorkProgress(work, saved, 0, max(0, pending), location)
    ran_ms = now_ms - record.saved_at_ms
    return WorkProgress(work, saved, work_ms(record, ran_ms), max(0, -ran_ms), location)


def change_over_ms(state: FleetState, record: JobRecord) -> int:
    """The time without progress when a job moves."""
    return state.policies.spot.change_over_ms + record.spec.checkpoint.restart_ms


class DeadlineChoice:
    """Chooses the location of one job with a deadline, at current prices and capacity."""

    def __init__(self, draft: Draft, record: JobRecord, deadline_ms: int) -> None:
        fits = record.backlog.plan.fits
        self._draft = draft
        self._record = record
        self.deadline_ms = deadline_ms
        self.progress = progress_of(draft.state, record, draft.now_ms)
        self.non_spot_price = min(fit.hourly_micro_usd for fit in fits if not fit.is_spot)
        here = self.progress.location
        self._spot = [
            fit
            for fit in fits
            if fit.is_spot
            and (fit.hourly_micro_usd < self.non_spot_price or fit.pool.spec.name == here)
        ]
        self._price = min((fit.hourly_micro_usd for fit in self._spot), default=0)

    @classmethod
    def of(cls, draft: Draft, record: JobRecord) -> DeadlineChoice | None:
        """The choice of a job; None if its deadline has passed or no spot pool is cheaper."""
        deadline_ms, plan = record.deadline_ms, record.backlog.plan
        if deadline_ms is None or draft.now_ms >= deadline_ms or not plan.needs_pool_choice:
            return None
        spot = sum(fit.is_spot for fit in plan.fits)
        if not 0 < spot < len(plan.fits):
            return None
        choice = cls(draft, record, deadline_ms)
        return choice if choice._spot else None

    def choose_location(self) -> Location:
        """Where the job should run now: a spot pool, ``ON_DEMAND`` (any non-spot pool), or ``WAIT``."""
        terms, location = self._terms(), self.progress.location
        if terms is None:
            return ON_DEMAND if location == WAIT else location
        tick_ms = terms.tick_ms
        progress, market = self._deadline_progress(tick_ms), self._market()
        rule = self._draft.state.policies.spot.deadline_rule
        if rule is DeadlineRule.EXPECTED_COST and not self._has_checkpoints():
            return self._choose_without_checkpoints(terms, progress, market)
        target = POLICIES[rule](terms, progress, market)
        if target == WAIT and rule is DeadlineRule.EXPECTED_COST:
            return self._spot_or_wait(terms, progress, market)
        if target != ON_DEMAND or location in (WAIT, ON_DEMAND):
            return target
        if market.offer_of(location) is None:
            return target
        latest_ms, now_ms = self.latest_start_ms(), self._draft.now_ms
        is_next_check_in_time = (now_ms // tick_ms + 1) * tick_ms <= latest_ms
        is_out_of_reach = now_ms > latest_ms + tick_ms
        return location if is_next_check_in_time or is_out_of_reach else ON_DEMAND

    def wait_reason(self) -> WaitsForSpot:
        """Why the job waits, with prices and times."""
        return WaitsForSpot(
            pools=tuple(dict.fromkeys(fit.pool.spec.name for fit in self._spot)),
            spot_micro_usd_per_hour=self._price,
            non_spot_micro_usd_per_hour=self.non_spot_price,
            left_ms=self.progress.remaining_if_lost_ms,
            deadline_ms=self.deadline_ms,
            wait_ms=max(0, self.latest_start_ms() - self._draft.now_ms),
        )

    def latest_start_ms(self) -> int:
        """The latest start on non-spot capacity that meets the deadline, less one tick of slack."""
        state = self._draft.state
        needs_ms = self.progress.remaining_if_lost_ms + change_over_ms(state, self._record)
        return self.deadline_ms - needs_ms - state.policies.spot.tick_ms

    def has_time_to_move(self, location: Location) -> bool:
        """Whether a move to spot would still be safe if stopping took a whole tick."""
        terms = self._terms()
        if terms is None:
            return False
        now = self._deadline_progress(terms.tick_ms)
        remaining_ms = self.progress.remaining_if_lost_ms
        later = DeadlineProgress(now.elapsed_ms + terms.tick_ms, remaining_ms, 0, WAIT)
        return can_wait_one_tick(terms, later, location)

    def _spot_or_wait(
        self, terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket
    ) -> Location:
        """Take safe spot capacity even early in its availability interval, to finish sooner.

        Measured, it costs no more than waiting for a later part of an interval (docs/decisions/0020).
        """
        offer = best_offer(terms, progress, market)
        if offer is not None and can_wait_one_tick(terms, progress, offer.pool):
            return offer.pool
        return WAIT

    def _choose_without_checkpoints(
        self, terms: DeadlineTerms, progress: DeadlineProgress, market: SpotMarket
    ) -> Location:
        """Choose for a job that loses all its work when it is stopped.

        It tries spot only while a failed run leaves time for a full run on non-spot capacity, and only if
        spot is expected to cost less with the repeated work counted.
        """
        if progress.location == ON_DEMAND or market.offer_of(progress.location) is not None:
            return progress.location
        pools = self._cheaper_spot_pools()
        if not pools or not can_wait_one_tick(terms, progress, pools[0]):
            return ON_DEMAND
        return next((name for name in pools if market.offer_of(name) is not None), WAIT)

    # -- inputs of the rules ---------------------------------------------------------------------

    def _has_checkpoints(self) -> bool:
        """Whether the job loses only a fraction of its work when it is stopped."""
        spec = self._record.spec
        return spec.preemptible and spec.checkpoint.interval_ms is not None

    def _cheaper_spot_pools(self) -> list[str]:
        """The spot pools expected to cost less than non-spot capacity, cheapest first."""
        fits = self._record.backlog.plan.fits
        non_spot = min(fit.expected_micro_usd for fit in fits if not fit.is_spot)
        cheaper = [fit for fit in self._spot if fit.expected_micro_usd < non_spot]
        cheaper.sort(key=lambda fit: (fit.expected_micro_usd, fit.pool.spec.name))
        return [fit.pool.spec.name for fit in cheaper]

    def _deadline_progress(self, tick_ms: int) -> DeadlineProgress:
        """The progress at the start of the tick to decide about: now, if a tick begins, else the next."""
        now_ms = -(-self._draft.now_ms // tick_ms) * tick_ms
        return DeadlineProgress(
            elapsed_ms=now_ms - self._origin_ms(tick_ms),
            remaining_ms=self.progress.remaining_ms,
            pending_ms=self.progress.pending_ms,
            location=self.progress.location,
        )

    def _origin_ms(self, tick_ms: int) -> int:
        return self._record.submitted_at_ms // tick_ms * tick_ms

    def _terms(self) -> DeadlineTerms | None:
        """What does not change while the job runs; None if even non-spot capacity would be late.

        Work is rounded up, so that similar jobs share a solved table.
        """
        policy, record = self._draft.state.policies.spot, self._record
        tick_ms, work = policy.tick_ms, self.progress.work_ms
        ticks = self.deadline_ms // tick_ms - 1 - self._origin_ms(tick_ms) // tick_ms
        change_ms = change_over_ms(self._draft.state, record)
        if work + change_ms > ticks * tick_ms or not self.non_spot_price:
            return None
        rounded = round_up_run_time_ms(work)
        if policy.deadline_rule is DeadlineRule.EXPECTED_COST:
            work = rounded if rounded + change_ms <= ticks * tick_ms else work
        return DeadlineTerms(
            work_ms=work,
            deadline_ms=ticks * tick_ms,
            change_over_ms=change_ms,
            tick_ms=tick_ms,
            on_demand_micro_usd=self.non_spot_price,
            rework_ms=self._rework_ms(tick_ms),
        )

    def _rework_ms(self, tick_ms: int) -> int:
        """The most work a loss can undo: one checkpoint interval, more if saves are late."""
        interval_ms = self._record.spec.checkpoint.interval_ms
        if interval_ms is None or not self._has_checkpoints():
            return self.progress.work_ms
        late = max(1, -(-(self.progress.unsaved_ms + tick_ms) // interval_ms))
        return min(self.progress.work_ms, max(tick_ms, late * interval_ms))

    def _market(self) -> SpotMarket:
        """The spot pools that are cheaper than non-spot capacity and have capacity now."""
        state, now_ms, location = self._draft.state, self._draft.now_ms, self.progress.location
        percent = state.policies.spot.spread_percent
        offers: list[SpotOffer] = []
        for fit in sorted(self._spot, key=lambda one: (one.pool.spec.name, one.hourly_micro_usd)):
            name = fit.pool.spec.name
            if offers and offers[-1].pool == name:
                continue
            if name == location:
                assert self._record.placement is not None
                price = self._record.placement.all_micro_usd_per_hour
                is_open = notice_on(state, self._record) is None
            else:
                price = crowded_price(fit, fit.hourly_micro_usd, percent)
                is_open = has_capacity(self._draft, self._record, fit)
            if is_open:
                offers.append(SpotOffer(name, price, state.spot.pools[name].availability(now_ms)))
        names = list(dict.fromkeys(fit.pool.spec.name for fit in self._spot))
        price = min((offer.price_micro_usd for offer in offers), default=self._price)
        combined = state.spot.availability(names, now_ms)
        if combined.up and not offers:
            # All of it is in use or about to be reclaimed: the same as just lost.
            combined = combined._replace(up=False, age=0)
        return SpotMarket(tuple(offers), combined, price)


def has_capacity(draft: Draft, record: JobRecord, fit: PoolFit) -> bool:
    """Whether a job fits in a pool now, by quota and capacity; nothing stays occupied."""
    if not draft.state.quota.fits(record.spec.queue, fit.request(fit.min_counts)):
        return False
    if draft.known_no_capacity(fit, fit.min_counts) is not None:
        return False
    mark = draft.journal.mark
    allocation = find_placement(fit, fit.min_counts, draft.search(record, fit))
    draft.journal.roll_back(mark)
    return allocation is not None
