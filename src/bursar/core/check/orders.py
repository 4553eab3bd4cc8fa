"""Orders fit the job's state, name its current attempt, and respect the preemption limits."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.core.check.budgets import must_stop, strictest_action
from bursar.core.check.decisions_by_type import DecisionsByType
from bursar.core.check.fault import Fault
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, EvacuateJob, PreemptJob, StopJob, StopReason
from bursar.model.event import NoticeKind
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.model.units import HOUR_MS, write_duration


def order_faults(state: FleetState, listing: DecisionsByType, now_ms: int) -> list[Fault]:
    """Faults in orders that do not depend on the placement."""
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
    def __init__(self, state: FleetState, listing: DecisionsByType, now_ms: int) -> None:
        self.state = state
        self.listing = listing
        self.now_ms = now_ms
        self.stopped: set[str] = set()

    def starts(self) -> Iterator[Fault]:
        for order in self.listing.starts:
            record = self.state.jobs.get(order.job_id)
            yield from self._must_wait(record, order.job_id, "StartJob")
            if record is not None and order.attempt != record.attempt + 1:
                yield _wrong_attempt("StartJob", record, order.attempt, record.attempt + 1)

    def claims(self) -> Iterator[Fault]:
        released = set(self.listing.released)
        stopped = self.listing.stopped_jobs
        for order in self.listing.claims:
            record = self.state.jobs.get(order.job_id)
            yield from self._must_wait(record, order.job_id, "ClaimPlacement")
            if record is not None and record.claim is not None and record.id not in released:
                text = f"{record.id} gets a second claim while it still has the first"
                yield Fault("claimed-already", record.id, text)
            yield from self._victims(order, stopped)

    def _victims(self, order: ClaimPlacement, stopped: set[str]) -> Iterator[Fault]:
        for victim in order.victims:
            record = self.state.jobs.get(victim)
            stops = victim in stopped or (record is not None and record.stop_requested)
            if record is None or record.state not in LIVE or not stops:
                text = f"the claim of {order.job_id} waits for {victim}, which is not stopped"
                yield Fault("victim-not-stopped", order.job_id, text)

    def releases(self) -> Iterator[Fault]:
        seen: set[str] = set()
        for job_id in self.listing.released:
            record = self.state.jobs.get(job_id)
            if record is None or record.claim is None or job_id in seen:
                text = f"the claim of {job_id} is released, but it has none"
                yield Fault("no-claim-to-release", job_id, text)
            seen.add(job_id)

    def stops(self) -> Iterator[Fault]:
        for order in self.listing.stops:
            record, faults = self._check_stop(order, "StopJob")
            yield from faults
            if record is not None and not self._may_stop(record, order.reason):
                limit_ms = _limit_of(record)
                limit = (
                    "has no time limit" if limit_ms is None else f"its limit is at {limit_ms} ms"
                )
                text = f"{record.id} is stopped ({order.reason}), but is {record.state} and {limit}"
                yield Fault("no-reason-to-stop", record.id, text)

    def _may_stop(self, record: JobRecord, reason: StopReason) -> bool:
        if reason is StopReason.CANCELLED:
            return record.state is JobState.CANCELLING
        if reason is StopReason.BUDGET:
            return must_stop(record, strictest_action(self.state, record.spec.queue))
        if record.state is not JobState.RUNNING:
            return False
        if reason is StopReason.MOVE:
            return _may_be_moved(record, self.now_ms)
        if reason is StopReason.COST_LIMIT:
            return _has_reached_cost_limit(record, self.now_ms)
        limit_ms = _limit_of(record)
        return limit_ms is not None and limit_ms <= self.now_ms

    def preemptions(self) -> Iterator[Fault]:
        victims = {(order.job_id, one) for order in self.listing.claims for one in order.victims}
        for order in self.listing.preemptions:
            if (order.on_behalf_of, order.job_id) not in victims:
                text = (
                    f"{order.job_id} is preempted for {order.on_behalf_of}, "
                    f"which has no claim with it as a victim"
                )
                yield Fault("preempted-for-nothing", order.job_id, text)
            record, faults = self._check_stop(order, "PreemptJob")
            yield from faults
            if record is None:
                continue
            yield from self._preemption_limits(record)

    def _preemption_limits(self, record: JobRecord) -> Iterator[Fault]:
        limits = self.state.policies.preemption
        if not record.spec.preemptible:
            text = f"{record.id} is preempted, but is not preemptible"
            yield Fault("not-preemptible", record.id, text)
        ran_ms = self.now_ms - record.assigned_at_ms
        if ran_ms < limits.minimum_run_ms:
            text = (
                f"{record.id} is preempted after {write_duration(ran_ms)}; "
                f"the minimum run time is {write_duration(limits.minimum_run_ms)}"
            )
            yield Fault("preempted-too-soon", record.id, text)
        if record.preemptions >= limits.preemptions_per_job:
            text = (
                f"{record.id} is preempted again after {record.preemptions} preemptions; "
                f"the policy allows {limits.preemptions_per_job}"
            )
            yield Fault("preempted-too-often", record.id, text)

    def evacuations(self) -> Iterator[Fault]:
        """Only jobs on a node that terminates are evacuated, all of them, and in time."""
        ends_by_job: dict[str, dict[str, int | None]] = {}
        for node, notice in sorted(self.state.notices.items()):
            if notice.kind is NoticeKind.TERMINATE:
                for holder in sorted(self.state.node(node).holders):
                    ends_by_job.setdefault(holder, {})[node] = notice.ends_at_ms
        for order in self.listing.evacuations:
            record, faults = self._check_stop(order, "EvacuateJob")
            yield from faults
            ends = ends_by_job.get(order.job_id, {})
            if record is not None and order.node not in ends:
                text = (
                    f"{record.id} is evacuated from {order.node}, "
                    f"which has no termination notice or does not run it"
                )
                yield Fault("evacuated-without-notice", record.id, text)
            for node, ends_at_ms in ends.items():
                remaining_ms = max(0, (ends_at_ms or 0) - self.now_ms)
                if ends_at_ms is not None and order.grace_ms > remaining_ms:
                    text = (
                        f"{order.job_id} has {write_duration(order.grace_ms)} to leave {node}, "
                        f"which terminates in {write_duration(remaining_ms)}"
                    )
                    yield Fault("grace-too-long", order.job_id, text)
        for job_id in sorted(ends_by_job.keys() - self.listing.stopped_jobs):
            record = self.state.jobs.get(job_id)
            if record is None or record.stop_requested:
                continue
            if record.state in (JobState.STARTING, JobState.RUNNING):
                node = min(ends_by_job[job_id])
                text = f"{job_id} is not evacuated from {node}, which has a termination notice"
                yield Fault("not-evacuated", job_id, text)

    # -- steps -----------------------------------------------------------------------------------

    def _must_wait(self, record: JobRecord | None, job_id: str, order: str) -> Iterator[Fault]:
        if record is None:
            yield _unknown_job(job_id, order)
        elif record.state is not JobState.QUEUED:
            text = f"{order} for {job_id}, which is not waiting: it is {record.state}"
            yield Fault("not-waiting", job_id, text)

    def _check_stop(
        self, order: PreemptJob | StopJob | EvacuateJob, name: str
    ) -> tuple[JobRecord | None, list[Fault]]:
        """Returns the live job that an order stops, if any, and the faults in stopping it."""
        record = self.state.jobs.get(order.job_id)
        if record is None:
            return None, [_unknown_job(order.job_id, name)]
        if record.state not in LIVE:
            text = f"{name} for {record.id}, which holds no resources: it is {record.state}"
            return None, [Fault("not-live", record.id, text)]
        faults: list[Fault] = []
        if order.attempt != record.attempt:
            faults.append(_wrong_attempt(name, record, order.attempt, record.attempt))
        is_stopping = record.stop_requested or record.id in self.stopped
        if isinstance(order, PreemptJob | EvacuateJob):
            is_stopping = is_stopping or record.state not in (JobState.STARTING, JobState.RUNNING)
        if is_stopping:
            text = f"{name} for {record.id}, which is already stopping"
            faults.append(Fault("stopped-twice", record.id, text))
        self.stopped.add(record.id)
        return record, faults


def _unknown_job(job_id: str, order: str) -> Fault:
    return Fault("unknown-job", job_id, f"{order} for {job_id}, which has ended or never existed")


def _wrong_attempt(order: str, record: JobRecord, stated: int, expected: int) -> Fault:
    text = f"{order} for attempt {stated} of {record.id}, expected {expected}"
    return Fault("wrong-attempt", record.id, text)


def _has_reached_cost_limit(record: JobRecord, now_ms: int) -> bool:
    """Whether the cost so far, plus grace and one millisecond, reaches the job's cost limit."""
    ceiling, placement = record.spec.max_cost_micro_usd, record.placement
    if ceiling is None or placement is None:
        return False
    held_ms = now_ms + record.spec.grace_ms + 1 - record.assigned_at_ms
    price = record.repriced_micro_usd
    price = placement.all_micro_usd_per_hour if price is None else price
    spent = record.charged_micro_usd * HOUR_MS + price * held_ms
    return spent >= ceiling * HOUR_MS


def _may_be_moved(record: JobRecord, now_ms: int) -> bool:
    """Whether a future deadline allows a move of the job between spot and other markets."""
    markets, deadline_ms = record.spec.constraints.markets, record.deadline_ms
    has_choice = Market.SPOT in markets and len(markets) > 1
    return record.spec.preemptible and has_choice and (deadline_ms or 0) > now_ms


def _limit_of(record: JobRecord) -> int | None:
    """Time at which the attempt reaches its run limit, if it has one."""
    if record.started_at_ms is None or record.spec.max_run_ms is None:
        return None
    return record.started_at_ms + record.spec.max_run_ms
