"""Orders are for jobs they can be for, fence the right attempt, and respect the limits."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.check.budgets import is_to_stop, strictest_action
from bursar.core.check.listing import Listing
from bursar.core.check.order_faults import (
    BudgetSpent,
    ClaimedAlready,
    GraceTooLong,
    LeftBehind,
    NoClaim,
    NoNotice,
    NoReasonToStop,
    NothingGained,
    NotLive,
    NotPreemptible,
    NotWaiting,
    OrderFault,
    ToldTwice,
    TooSoon,
    UnknownJob,
    VictimStays,
    WrongAttempt,
)
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model.decision import ClaimRoom, EvacuateJob, PreemptJob, StopJob, StopReason
from bursar.model.event import NoticeKind
from bursar.model.fleet import Market
from bursar.model.job import JobState
from bursar.model.units import HOUR_MS

HOLDS_ROOM = frozenset(
    {
        JobState.STARTING,
        JobState.RUNNING,
        JobState.STOPPING,
        JobState.CANCELLING,
        JobState.EXPIRING,
    }
)


def order_faults(state: FleetState, listing: Listing, now_ms: int) -> list[OrderFault]:
    """What is wrong with orders, wherever they put their jobs."""
    check = _Orders(state, listing, now_ms)
    return [
        *check.starts(),
        *check.claims(),
        *check.releases(),
        *check.stops(),
        *check.preemptions(),
        *check.evacuations(),
    ]


class _Orders:
    def __init__(self, state: FleetState, listing: Listing, now_ms: int) -> None:
        self.state = state
        self.listing = listing
        self.now_ms = now_ms
        self.told: set[str] = set()

    def starts(self) -> Iterator[OrderFault]:
        for order in self.listing.starts:
            record = self.state.jobs.get(order.job_id)
            yield from self._must_wait(record, order.job_id, "StartJob")
            if record is not None and order.attempt != record.attempt + 1:
                yield self._wrong_attempt("StartJob", record, order.attempt, record.attempt + 1)

    def claims(self) -> Iterator[OrderFault]:
        released = set(self.listing.released)
        told = self.listing.told
        for order in self.listing.claims:
            record = self.state.jobs.get(order.job_id)
            yield from self._must_wait(record, order.job_id, "ClaimRoom")
            if record is not None and record.claim is not None and record.id not in released:
                yield ClaimedAlready(job_id=record.id)
            yield from self._victims(order, told)

    def _victims(self, order: ClaimRoom, told: set[str]) -> Iterator[OrderFault]:
        for victim in order.victims:
            record = self.state.jobs.get(victim)
            leaves = victim in told or (record is not None and record.told_to_stop)
            if record is None or record.state not in HOLDS_ROOM or not leaves:
                yield VictimStays(job_id=order.job_id, victim=victim)

    def releases(self) -> Iterator[OrderFault]:
        seen: set[str] = set()
        for job_id in self.listing.released:
            record = self.state.jobs.get(job_id)
            if record is None or record.claim is None or job_id in seen:
                yield NoClaim(job_id=job_id)
            seen.add(job_id)

    def stops(self) -> Iterator[OrderFault]:
        for order in self.listing.stops:
            record, faults = self._told(order, "StopJob")
            yield from faults
            if record is not None and not self._is_over(record, order.reason):
                yield NoReasonToStop(
                    job_id=record.id,
                    reason=order.reason,
                    state=record.state,
                    limit_at_ms=_limit_of(record),
                )

    def _is_over(self, record: JobRecord, reason: StopReason) -> bool:
        if reason is StopReason.CANCELLED:
            return record.state is JobState.CANCELLING
        if reason is StopReason.BUDGET:
            return is_to_stop(record, strictest_action(self.state, record.spec.queue))
        if record.state is not JobState.RUNNING:
            return False
        if reason is StopReason.MOVE:
            return _may_be_moved(record, self.now_ms)
        if reason is StopReason.COST_LIMIT:
            return _has_spent_its_ceiling(record, self.now_ms)
        limit_ms = _limit_of(record)
        return limit_ms is not None and limit_ms <= self.now_ms

    def preemptions(self) -> Iterator[OrderFault]:
        limits = self.state.policies.preemption
        victims = {(order.job_id, one) for order in self.listing.claims for one in order.victims}
        for order in self.listing.preemptions:
            if (order.on_behalf_of, order.job_id) not in victims:
                yield NothingGained(job_id=order.job_id, on_behalf_of=order.on_behalf_of)
            record, faults = self._told(order, "PreemptJob")
            yield from faults
            if record is None:
                continue
            if not record.spec.preemptible:
                yield NotPreemptible(job_id=record.id)
            ran_ms = self.now_ms - record.assigned_at_ms
            if ran_ms < limits.minimum_run_ms:
                minimum = limits.minimum_run_ms
                yield TooSoon(job_id=record.id, ran_ms=ran_ms, minimum_run_ms=minimum)
            if record.preemptions >= limits.preemptions_per_job:
                budget = limits.preemptions_per_job
                yield BudgetSpent(job_id=record.id, preemptions=record.preemptions, budget=budget)

    def evacuations(self) -> Iterator[OrderFault]:
        """Who is on a node that is taken away must be told, nobody else, and in time."""
        doomed: dict[str, dict[str, int | None]] = {}
        for node, notice in sorted(self.state.notices.items()):
            if notice.kind is NoticeKind.TERMINATE:
                for holder in sorted(self.state.node(node).holders):
                    doomed.setdefault(holder, {})[node] = notice.ends_at_ms
        for order in self.listing.evacuations:
            record, faults = self._told(order, "EvacuateJob")
            yield from faults
            ends = doomed.get(order.job_id, {})
            if record is not None and order.node not in ends:
                yield NoNotice(job_id=record.id, node=order.node)
            for node, ends_at_ms in ends.items():
                left_ms = max(0, (ends_at_ms or 0) - self.now_ms)
                if ends_at_ms is not None and order.grace_ms > left_ms:
                    yield GraceTooLong(
                        job_id=order.job_id, node=node, grace_ms=order.grace_ms, left_ms=left_ms
                    )
        for job_id in sorted(doomed.keys() - self.listing.told):
            record = self.state.jobs.get(job_id)
            if record is None or record.told_to_stop:
                continue
            if record.state in (JobState.STARTING, JobState.RUNNING):
                yield LeftBehind(job_id=job_id, node=min(doomed[job_id]))

    # -- steps -----------------------------------------------------------------------------------

    def _must_wait(self, record: JobRecord | None, job_id: str, order: str) -> Iterator[OrderFault]:
        if record is None:
            yield UnknownJob(job_id=job_id, order=order)
        elif record.state is not JobState.QUEUED:
            yield NotWaiting(job_id=job_id, order=order, state=record.state)

    def _told(
        self, order: PreemptJob | StopJob | EvacuateJob, name: str
    ) -> tuple[JobRecord | None, list[OrderFault]]:
        """The live job that an order ends, if it has one, and what is wrong with ending it."""
        record = self.state.jobs.get(order.job_id)
        if record is None:
            return None, [UnknownJob(job_id=order.job_id, order=name)]
        if record.state not in HOLDS_ROOM:
            return None, [NotLive(job_id=record.id, order=name, state=record.state)]
        found: list[OrderFault] = []
        if order.attempt != record.attempt:
            found.append(self._wrong_attempt(name, record, order.attempt, record.attempt))
        leaving = record.told_to_stop or record.id in self.told
        if isinstance(order, PreemptJob | EvacuateJob):
            leaving = leaving or record.state not in (JobState.STARTING, JobState.RUNNING)
        if leaving:
            found.append(ToldTwice(job_id=record.id, order=name))
        self.told.add(record.id)
        return record, found

    @staticmethod
    def _wrong_attempt(order: str, record: JobRecord, stated: int, expected: int) -> OrderFault:
        return WrongAttempt(job_id=record.id, order=order, stated=stated, expected=expected)


def _has_spent_its_ceiling(record: JobRecord, now_ms: int) -> bool:
    """Whether what the job was charged, its end and a millisecond more are all that it allows."""
    ceiling, placement = record.spec.max_cost_micro_usd, record.placement
    if ceiling is None or placement is None:
        return False
    held_ms = now_ms + record.spec.grace_ms + 1 - record.assigned_at_ms
    price = record.repriced_micro_usd
    price = placement.all_micro_usd_per_hour if price is None else price
    spent = record.charged_micro_usd * HOUR_MS + price * held_ms
    return spent >= ceiling * HOUR_MS


def _may_be_moved(record: JobRecord, now_ms: int) -> bool:
    """Whether a deadline that is still to come may send the job from spot elsewhere, or back."""
    markets, deadline_ms = record.spec.constraints.markets, record.deadline_ms
    has_choice = Market.SPOT in markets and len(markets) > 1
    return record.spec.preemptible and has_choice and (deadline_ms or 0) > now_ms


def _limit_of(record: JobRecord) -> int | None:
    """When the attempt must end, from when it started and what its job allows."""
    if record.started_at_ms is None or record.spec.max_run_ms is None:
        return None
    return record.started_at_ms + record.spec.max_run_ms
