"""Which pools a job that may run on spot should try now, and in which order.

Without a deadline the cheapest by expected cost come first, and jobs alike are spread over spot pools of
about the same cost: what takes one away takes all that stand there. With a deadline a rule of
``core/deadline`` says spot, steady capacity or neither yet; a job keeps to it while it runs, too
(``moves.py``). Everything here is asked anew in each cycle and nothing is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bursar.core.deadline import (
    ON_DEMAND,
    POLICIES,
    WAIT,
    DeadlineProgress,
    DeadlineTerms,
    Location,
    SpotMarket,
    SpotOffer,
)
from bursar.core.deadline.deadline_guard import can_wait_one_tick
from bursar.core.deadline.eligibility import work_of
from bursar.core.deadline.expected_cost import best_offer
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
    """The pools to try, best first; or why to wait though there may be room."""

    tiers: Tiers
    fits: tuple[PoolFit, ...]
    waits: WaitsForSpot | None = None


def choose_pools(draft: Draft, record: JobRecord) -> PoolChoice:
    """For a job that waits."""
    plan = record.backlog.plan
    choice = DeadlineChoice.of(draft, record) if plan.shape.own else None
    if choice is None:
        return _spread(plan, draft.state.policies.spot.spread_percent)
    place = choice.place()
    if place == WAIT:
        return PoolChoice(tiers=(), fits=(), waits=choice.wait_reason())
    steady = tuple(fit for fit in plan.fits if not fit.is_spot)
    spot = tuple(fit for fit in plan.fits if fit.is_spot)
    if place == ON_DEMAND:
        tiers = tuple(tier for tier in plan.tiers if not tier[0].is_spot)
        return PoolChoice(tiers=(*tiers, *((fit,) for fit in spot)), fits=steady)
    first = tuple(sorted(spot, key=lambda fit: fit.pool.spec.name != place))
    return PoolChoice(tiers=tuple((fit,) for fit in (*first, *steady)), fits=(*first, *steady))


# -- jobs alike, spread ----------------------------------------------------------------------------


def _spread(plan: ShapePlan, percent: int) -> PoolChoice:
    """Spot pools by expected cost and by how many of its like stand in each; then the others."""
    first = sorted(
        plan.leading_spot_fits(),
        key=lambda fit: (crowded_price(fit, fit.expected_micro_usd, percent), fit.pool.spec.name),
    )
    rest = tuple(tier for tier in plan.tiers if tier[0] not in first)
    fits = (*first, *(fit for tier in rest for fit in tier))
    return PoolChoice(tiers=(*((fit,) for fit in first), *rest), fits=fits)


def crowded_price(fit: PoolFit, micro_usd: int, percent: int) -> int:
    """A price as it looks where others alike stand already: with all of them there it is so much dearer."""
    alike = fit.plan.similar_by_pool
    if not alike:
        return micro_usd
    here, all_of_them = alike.get(fit.pool.spec.name, 0), sum(alike.values()) + 1
    return micro_usd + micro_usd * percent * here // (PERCENT * all_of_them)


# -- jobs with a deadline --------------------------------------------------------------------------


class WorkProgress(NamedTuple):
    """How far a job is: work in all, saved, done but not saved; what a start still takes; where it runs."""

    work_ms: int
    saved_ms: int
    unsaved_ms: int
    pending_ms: int
    place: Location

    @property
    def left_ms(self) -> int:
        """A job that has had all that was expected, and is not over, still has something left."""
        return max(1, self.work_ms - self.saved_ms - self.unsaved_ms)

    @property
    def remaining_if_lost_ms(self) -> int:
        return max(1, self.work_ms - self.saved_ms)


def progress_of(state: FleetState, record: JobRecord, now_ms: int) -> WorkProgress:
    """From what is known of the job and its attempt."""
    work, saved = work_of(record.spec), record.done_ms
    placement = record.placement
    if placement is None or record.state not in LIVE or record.stop_requested:
        return WorkProgress(work, saved, 0, 0, WAIT)
    is_spot = placement.pool in state.spot.pools
    place = placement.pool if is_spot else ON_DEMAND
    if record.started_at_ms is None:
        since_ms = now_ms - record.assigned_at_ms
        pending = change_over_ms(state, record) - since_ms
        return WorkProgress(work, saved, 0, max(0, pending), place)
    ran_ms = now_ms - record.saved_at_ms
    return WorkProgress(work, saved, work_ms(record, ran_ms), max(0, -ran_ms), place)


def change_over_ms(state: FleetState, record: JobRecord) -> int:
    """What passes without progress when the job goes elsewhere."""
    return state.policies.spot.change_over_ms + record.spec.checkpoint.restart_ms


class DeadlineChoice:
    """One question: a job with a deadline, what it may use, and what that costs now."""

    __slots__ = (
        "_draft",
        "_price",
        "_record",
        "_spot",
        "deadline_ms",
        "progress",
        "non_spot_price",
    )

    def __init__(self, draft: Draft, record: JobRecord, deadline_ms: int) -> None:
        fits = record.backlog.plan.fits
        self._draft = draft
        self._record = record
        self.deadline_ms = deadline_ms
        self.progress = progress_of(draft.state, record, draft.now_ms)
        self.non_spot_price = min(fit.hourly_micro_usd for fit in fits if not fit.is_spot)
        here = self.progress.place
        self._spot = [
            fit
            for fit in fits
            if fit.is_spot
            and (fit.hourly_micro_usd < self.non_spot_price or fit.pool.spec.name == here)
        ]
        self._price = min((fit.hourly_micro_usd for fit in self._spot), default=0)

    @classmethod
    def of(cls, draft: Draft, record: JobRecord) -> DeadlineChoice | None:
        """None when nothing is to be steered: it is too late, or spot is missing or costs as much."""
        deadline_ms, plan = record.deadline_ms, record.backlog.plan
        if deadline_ms is None or draft.now_ms >= deadline_ms or not plan.needs_pool_choice:
            return None
        spot = sum(fit.is_spot for fit in plan.fits)
        if not 0 < spot < len(plan.fits):
            return None
        found = cls(draft, record, deadline_ms)
        return found if found._spot else None

    def place(self) -> Location:
        """Where the job should be from now on: a spot pool, ``ON_DEMAND`` (any steady one), or ``WAIT``."""
        terms, place = self._terms(), self.progress.place
        if terms is None:
            return ON_DEMAND if place == WAIT else place
        tick_ms = terms.tick_ms
        standing, market = self._standing(tick_ms), self._market()
        rule = self._draft.state.policies.spot.deadline_rule
        if rule is DeadlineRule.EXPECTED_COST and not self._has_checkpoints():
            return self._choose_without_checkpoints(terms, standing, market)
        wish = POLICIES[rule](terms, standing, market)
        if wish == WAIT and rule is DeadlineRule.EXPECTED_COST:
            return self._spot_or_wait(terms, standing, market)
        if wish != ON_DEMAND or place in (WAIT, ON_DEMAND) or market.offer_of(place) is None:
            return wish
        return place if self._is_safe(tick_ms) or self._is_out_of_reach() else ON_DEMAND

    def wait_reason(self) -> WaitsForSpot:
        """Why it waits, in numbers."""
        return WaitsForSpot(
            pools=tuple(dict.fromkeys(fit.pool.spec.name for fit in self._spot)),
            spot_micro_usd_per_hour=self._price,
            non_spot_micro_usd_per_hour=self.non_spot_price,
            left_ms=self.progress.remaining_if_lost_ms,
            deadline_ms=self.deadline_ms,
            wait_ms=max(0, self.latest_start_ms() - self._draft.now_ms),
        )

    def latest_start_ms(self) -> int:
        """When steady capacity must be begun at the latest, with a tick of slack, if all of spot fails."""
        state = self._draft.state
        needs_ms = self.progress.remaining_if_lost_ms + change_over_ms(state, self._record)
        return self.deadline_ms - needs_ms - state.policies.spot.tick_ms

    def has_time_to_move(self, place: Location) -> bool:
        """Whether a move to spot would still be safe if stopping took a tick: else it is for nothing."""
        terms = self._terms()
        if terms is None:
            return False
        later = self._standing(terms.tick_ms)._replace(place=WAIT, pending_ms=0)
        later = later._replace(
            elapsed_ms=later.elapsed_ms + terms.tick_ms,
            remaining_ms=self.progress.remaining_if_lost_ms,
        )
        return can_wait_one_tick(terms, later, place)

    def _spot_or_wait(
        self, terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket
    ) -> Location:
        """Spot that is there and safe is taken, also when it is young: an end sooner is worth something.

        Measured, it costs no more than to wait for an older spell (docs/decisions/0020).
        """
        offer = best_offer(terms, standing, market)
        if offer is not None and can_wait_one_tick(terms, standing, offer.pool):
            return offer.pool
        return WAIT

    def _choose_without_checkpoints(
        self, terms: DeadlineTerms, standing: DeadlineProgress, market: SpotMarket
    ) -> Location:
        """For a job that loses all its work when it is stopped.

        It tries spot only while a whole try that fails leaves time for a whole one on steady capacity,
        and only if spot is expected to cost less with all that is then done again.
        """
        if standing.place == ON_DEMAND or market.offer_of(standing.place) is not None:
            return standing.place
        worth = self._cheaper_spot_pools()
        if not worth or not can_wait_one_tick(terms, standing, worth[0]):
            return ON_DEMAND
        return next((name for name in worth if market.offer_of(name) is not None), WAIT)

    # -- small steps -----------------------------------------------------------------------------

    def _has_checkpoints(self) -> bool:
        """Whether stopping the job costs a part of its work and not all of it."""
        spec = self._record.spec
        return spec.preemptible and spec.checkpoint.interval_ms is not None

    def _cheaper_spot_pools(self) -> list[str]:
        """The spot pools that are expected to cost less than steady capacity, cheapest first."""
        fits = self._record.backlog.plan.fits
        steady = min(fit.expected_micro_usd for fit in fits if not fit.is_spot)
        found = [fit for fit in self._spot if fit.expected_micro_usd < steady]
        found.sort(key=lambda fit: (fit.expected_micro_usd, fit.pool.spec.name))
        return [fit.pool.spec.name for fit in found]

    def _is_safe(self, tick_ms: int) -> bool:
        """Whether the next look comes before the last moment."""
        return (self._draft.now_ms // tick_ms + 1) * tick_ms <= self.latest_start_ms()

    def _is_out_of_reach(self) -> bool:
        """Whether even going now would be too late: then a move would only make it later."""
        state = self._draft.state
        needs_ms = self.progress.remaining_if_lost_ms + change_over_ms(state, self._record)
        return self._draft.now_ms + needs_ms > self.deadline_ms

    def _standing(self, tick_ms: int) -> DeadlineProgress:
        """How far it is when the tick begins that is decided about: the present one, or else the next."""
        now_ms = -(-self._draft.now_ms // tick_ms) * tick_ms
        return DeadlineProgress(
            elapsed_ms=now_ms - self._origin_ms(tick_ms),
            remaining_ms=self.progress.left_ms,
            pending_ms=self.progress.pending_ms,
            place=self.progress.place,
        )

    def _origin_ms(self, tick_ms: int) -> int:
        return self._record.submitted_at_ms // tick_ms * tick_ms

    def _terms(self) -> DeadlineTerms | None:
        """What does not change while the job runs; None when even steady capacity would be late.

        Work is rounded up, so that jobs nearly alike share what is worked out for them.
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
        """The most that a loss can undo: an interval, more when saves are late, all without saves."""
        interval_ms = self._record.spec.checkpoint.interval_ms
        if interval_ms is None or not self._has_checkpoints():
            return self.progress.work_ms
        late = max(1, -(-(self.progress.unsaved_ms + tick_ms) // interval_ms))
        return min(self.progress.work_ms, max(tick_ms, late * interval_ms))

    def _market(self) -> SpotMarket:
        """The spot pools that are cheaper than steady capacity and have room for the job now."""
        state, now_ms, place = self._draft.state, self._draft.now_ms, self.progress.place
        percent = state.policies.spot.spread_percent
        offers: list[SpotOffer] = []
        for fit in sorted(self._spot, key=lambda one: (one.pool.spec.name, one.hourly_micro_usd)):
            name = fit.pool.spec.name
            if offers and offers[-1].pool == name:
                continue
            if name == place:
                assert self._record.placement is not None
                price, is_open = (
                    self._record.placement.all_micro_usd_per_hour,
                    self._has_no_notice(),
                )
            else:
                price = crowded_price(fit, fit.hourly_micro_usd, percent)
                is_open = has_capacity(self._draft, self._record, fit)
            if is_open:
                offers.append(SpotOffer(name, price, state.spot.pools[name].availability(now_ms)))
        names = list(dict.fromkeys(fit.pool.spec.name for fit in self._spot))
        price = min((offer.price_micro_usd for offer in offers), default=self._price)
        whole = state.spot.availability(names, now_ms)
        if whole.up and not offers:
            # What is there is taken, or about to be lost: as if it had just gone.
            whole = whole._replace(up=False, age=0)
        return SpotMarket(tuple(offers), whole, price)

    def _has_no_notice(self) -> bool:
        return notice_on(self._draft.state, self._record) is None


def has_capacity(draft: Draft, record: JobRecord, fit: PoolFit) -> bool:
    """Whether a pool has quota and room for a job now; nothing stays occupied."""
    if not draft.state.quota.fits(record.spec.queue, fit.request(fit.min_counts)):
        return False
    if draft.known_no_capacity(fit, fit.min_counts) is not None:
        return False
    mark = draft.journal.mark
    found = find_placement(fit, fit.min_counts, draft.search(record, fit)) is not None
    draft.journal.roll_back(mark)
    return found
