"""Timers: when a decision may change although no event happens.

Time alone matters in seven ways: an attempt reaches its limit; it has run long enough to be preempted; it
has attained so much GPU time that its priority level drops; it outlives its expected end or its expected
run time, which moves the plans that relied on it; a waiting job becomes urgent; a waiting job ages by a
step; jobs with deadlines on spot pools are due for a check. Whether anything follows is for the cycle to
decide. A superfluous timer costs one cycle; a missing one delays a job.

The live and the simulated shell both ask ``Timers`` when to wake up. It reads what it can off the state
instead of scheduling it, so that a start from a snapshot needs nothing but the state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, NamedTuple

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import FAR_FUTURE_MS, JobRecord
from bursar.core.state.run_time_model import STEPS, step_begins_ms, step_of
from bursar.model.event import (
    AttemptAssigned,
    AttemptResumed,
    AttemptStarted,
    CheckpointSaved,
    JobSubmitted,
)
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import fence
from bursar.model.tenants.policy import OrderTerm, Policies, WithinQueue
from bursar.model.units import MILLI

NEVER_MS: Final = 1 << 62
COMPACT_ABOVE: Final = 4_096
"""Above this number of timers, those of ended attempts are dropped."""
_LATER_IN_ORDER: Final = WithinQueue.LATER_IN_ORDER

QUIET: Final = frozenset({AttemptStarted, CheckpointSaved, AttemptResumed})
"""Events that free no capacity or quota and change no order: no hold can end because of them."""


class AttemptTimer(NamedTuple):
    """At this time a decision about an attempt may change."""

    at_ms: int
    job_id: str
    attempt: int


class WaitingJobTimer(NamedTuple):
    """At this time a waiting job becomes urgent, or has aged by a step (then it repeats)."""

    at_ms: int
    job_id: str
    repeats: bool


class Timers:
    """All timers of a fleet; a shell asks for the next one and which are due.

    Apply every event to the state first, then here. Call ``after_cycle`` after each cycle: the age and the
    lateness of attempts matter only while jobs wait, limits always.
    """

    def __init__(self, state: FleetState, now_ms: int = -1) -> None:
        self._state = state
        self._asked_ms = now_ms
        self._has_waiting_jobs = True
        order = state.policies.order
        self._aging_step_ms = order.aging_step_ms or 0
        self._levels_gpu_ms: tuple[int, ...] = ()
        if OrderTerm.LEAST_ATTAINED in order.terms:
            self._levels_gpu_ms = order.attained_levels_gpu_ms
        self._attempts = AttemptTimers(state, now_ms)
        self._level_drops: list[AttemptTimer] = []
        self._waiting: list[WaitingJobTimer] = []
        self._deadline_check_ms = next_check_ms(state, now_ms)
        for record in state.live():
            self._add_level_drops(record, now_ms)
        for _, record in sorted(state.jobs.items()):
            self._add_waiting(record, now_ms)

    def appliers(self) -> dict[type, Callable[..., None]]:
        """The method that each event type needs; other types set no timer."""
        return {
            AttemptAssigned: self._attempts.assigned,
            AttemptStarted: self._started,
            JobSubmitted: self._submitted,
        }

    def _started(self, event: AttemptStarted) -> None:
        record = self._state.jobs.get(event.job_id)
        if record is not None:
            self._attempts.started(record)
            if self._levels_gpu_ms:
                self._add_level_drops(record, event.at_ms)

    def _submitted(self, event: JobSubmitted) -> None:
        spec = event.spec
        if self._aging_step_ms or spec.deadline_ms is not None or spec.slo is not None:
            state = self._state
            self._add_waiting(state.jobs[event.job_id], event.at_ms)
            if event.job_id in state.backlogs.deadline_jobs:
                check_ms = next_check_ms(state, event.at_ms)
                self._deadline_check_ms = min(self._deadline_check_ms, check_ms)

    def _add_level_drops(self, record: JobRecord, now_ms: int) -> None:
        """Attained GPU time grows evenly, so every drop is known when the attempt starts."""
        gpu_milli, started_at_ms = record.backlog.plan.gpu_milli, record.started_at_ms
        if started_at_ms is None or not gpu_milli:
            return
        for level_gpu_ms in self._levels_gpu_ms:
            left_gpu_ms = level_gpu_ms - record.attained_gpu_ms
            at_ms = started_at_ms - (-left_gpu_ms * MILLI // gpu_milli)
            if left_gpu_ms > 0 and at_ms > now_ms:
                heappush(self._level_drops, AttemptTimer(at_ms, record.id, record.attempt))

    def _add_waiting(self, record: JobRecord, now_ms: int) -> None:
        """Running jobs have these too: a preempted job goes on ageing from its submission."""
        if record.deadline_ms is not None:
            urgent_slack_ms = self._state.policies.order.urgent_slack_ms
            urgent_ms = record.deadline_ms - record.run_ms - urgent_slack_ms + 1
            if urgent_ms > max(now_ms, record.submitted_at_ms):
                heappush(self._waiting, WaitingJobTimer(urgent_ms, record.id, False))
        step_ms = self._aging_step_ms
        if step_ms:
            steps = max(0, now_ms - record.submitted_at_ms) // step_ms + 1
            at_ms = record.submitted_at_ms + steps * step_ms
            heappush(self._waiting, WaitingJobTimer(at_ms, record.id, True))

    def next_ms(self) -> int:
        """The time of the next timer, or ``NEVER_MS``."""
        next_ms = self._deadline_check_ms
        limits = self._state.limits
        if limits:
            limit_ms = limits[0][0]
            if limit_ms <= self._asked_ms:
                limit_ms = _first_after(limits, self._asked_ms)
            next_ms = min(next_ms, limit_ms)
        if self._waiting:
            next_ms = min(next_ms, self._waiting[0].at_ms)
        if self._level_drops:
            next_ms = min(next_ms, self._level_drops[0].at_ms)
        if self._has_waiting_jobs and self._attempts.matter:
            return min(next_ms, self._attempts.next_ms())
        return next_ms

    def due(self, now_ms: int, *, repeat: bool = True) -> bool:
        """Consume the timers up to now; returns whether any of them calls for a cycle.

        ``repeat=False`` stops the ageing timers: a simulation in which nothing else happens must end even if
        a job can never start.
        """
        state = self._state
        is_due = bool(state.limits) and state.limits[0][0] <= now_ms
        if self._deadline_check_ms <= now_ms:
            is_due = is_due or bool(state.backlogs.deadline_jobs)
            self._deadline_check_ms = next_check_ms(state, now_ms)
        while self._waiting and self._waiting[0].at_ms <= now_ms:
            is_due = self._is_waiting_due(heappop(self._waiting), repeat) or is_due
        while self._level_drops and self._level_drops[0].at_ms <= now_ms:
            dropped = heappop(self._level_drops)
            lives = fence(state.jobs.get(dropped.job_id), dropped.attempt) is not None
            is_due = is_due or (lives and self._has_waiting_jobs)
        if self._has_waiting_jobs and self._attempts.matter:
            is_due = self._attempts.due(now_ms) or is_due
        self._asked_ms = now_ms
        return is_due

    def _is_waiting_due(self, timer: WaitingJobTimer, repeat: bool) -> bool:
        record = self._state.jobs.get(timer.job_id)
        if record is None:
            return False
        if timer.repeats and repeat:
            again = WaitingJobTimer(timer.at_ms + self._aging_step_ms, timer.job_id, True)
            heappush(self._waiting, again)
        return record.state is JobState.QUEUED

    def after_cycle(self, now_ms: int, *, has_waiting_jobs: bool) -> None:
        """Note whether the cycle left jobs waiting; before its orders are applied."""
        if has_waiting_jobs and not self._has_waiting_jobs:
            self._attempts.skip_to(now_ms)
        self._has_waiting_jobs = has_waiting_jobs


class AttemptTimers:
    """Ages, expected ends and expected run times of attempts, as far as they concern waiting jobs.

    The next one is read off the state: ages come in the order of assignments, expected ends are sorted in
    their pools, and when an attempt outlasts its expected run time is computed on the first question. So an
    attempt that starts while no job waits costs almost nothing.
    """

    def __init__(self, state: FleetState, now_ms: int) -> None:
        self._state = state
        self.matter = attempts_matter(state.policies)
        self._minimum_run_ms = state.policies.preemption.minimum_run_ms
        self._ages: deque[AttemptTimer] = deque()
        self._started: list[tuple[str, int]] = []
        self._outlasting: list[AttemptTimer] = []
        self._asked_ms = now_ms
        for record in sorted(state.live(), key=lambda one: (one.assigned_at_ms, one.id)):
            age_ms = record.assigned_at_ms + self._minimum_run_ms
            if age_ms > now_ms:
                self._ages.append(AttemptTimer(age_ms, record.id, record.attempt))
            self.started(record)

    def assigned(self, event: AttemptAssigned) -> None:
        """The attempt may be preempted once it has its minimum run time."""
        if self.matter:
            age_ms = event.at_ms + self._minimum_run_ms
            self._ages.append(AttemptTimer(age_ms, event.job_id, event.attempt))
            if len(self._ages) > COMPACT_ABOVE and self._are_mostly_over(len(self._ages)):
                self._ages = deque(
                    age for age in self._ages if self._lives(age.job_id, age.attempt)
                )

    def started(self, record: JobRecord) -> None:
        """The attempt may outlast its expected run time."""
        if self.matter and record.run_time_estimate is not None:
            self._started.append((record.id, record.attempt))
            if len(self._started) > COMPACT_ABOVE and self._are_mostly_over(len(self._started)):
                self._started = [one for one in self._started if self._lives(*one)]

    def _are_mostly_over(self, timers: int) -> bool:
        """Whether most timers must belong to attempts that have ended."""
        return timers > 2 * len(self._state.jobs)

    def next_ms(self) -> int:
        """The time of the next timer after the last question."""
        ages = self._ages
        while ages and not self._lives(ages[0].job_id, ages[0].attempt):
            ages.popleft()
        next_ms = min(ages[0].at_ms if ages else NEVER_MS, self._next_outlasting_ms())
        for pool in self._state.pools.values():
            next_ms = min(next_ms, _first_after(pool.ends, self._asked_ms))
        return next_ms

    def _next_outlasting_ms(self) -> int:
        """Attempts started since the last question are added, passed timers move to their next step."""
        for job_id, attempt in self._started:
            self._add_outlasting(job_id, attempt)
        self._started.clear()
        coming = self._outlasting
        while coming and (
            coming[0].at_ms <= self._asked_ms
            or not self._lives(coming[0].job_id, coming[0].attempt)
        ):
            passed = heappop(coming)
            self._add_outlasting(passed.job_id, passed.attempt)
        return coming[0].at_ms if coming else NEVER_MS

    def _add_outlasting(self, job_id: str, attempt: int) -> None:
        if self._lives(job_id, attempt):
            at_ms = next_outlasting_ms(self._state, self._state.jobs[job_id], self._asked_ms)
            if at_ms != NEVER_MS:
                heappush(self._outlasting, AttemptTimer(at_ms, job_id, attempt))

    def skip_to(self, now_ms: int) -> None:
        """No job waited until now, so timers up to now have no effect."""
        while self._ages and self._ages[0].at_ms <= now_ms:
            self._ages.popleft()
        self._asked_ms = now_ms

    def due(self, now_ms: int) -> bool:
        """Consume the timers up to now; returns whether one of a live attempt was due."""
        ages, is_due = self._ages, False
        while ages and ages[0].at_ms <= now_ms:
            age = ages.popleft()
            is_due = is_due or self._lives(age.job_id, age.attempt)
        if not is_due and now_ms > self._asked_ms:
            is_due = self._next_outlasting_ms() <= now_ms or any(
                _first_after(pool.ends, self._asked_ms) <= now_ms
                for pool in self._state.pools.values()
            )
        self._asked_ms = now_ms
        return is_due

    def _lives(self, job_id: str, attempt: int) -> bool:
        return fence(self._state.jobs.get(job_id), attempt) is not None


def _first_after(times: list[tuple[int, str]], after_ms: int) -> int:
    """The first of sorted times that is later."""
    index = bisect_left(times, (after_ms + 1, ""))
    return times[index][0] if index < len(times) else NEVER_MS


def attempts_matter(policies: Policies) -> bool:
    """Whether the age and lateness of attempts can change anything for waiting jobs.

    They cannot where no start is planned around expected ends and nothing is preempted.
    """
    return policies.backfill.reservations > 0 or policies.preemption.searches_per_cycle > 0


def next_outlasting_ms(state: FleetState, record: JobRecord, after_ms: int) -> int:
    """When a running job's expected run time grows next, so that it may be preempted."""
    rule = state.preemption_policies[record.spec.queue].within_queue
    if rule is not _LATER_IN_ORDER or record.run_time_estimate is None:
        return NEVER_MS
    gpu_milli = record.backlog.plan.gpu_milli
    if record.started_at_ms is None or not gpu_milli:
        return NEVER_MS
    limits = state.policies.preemption
    settled_ms = limits.settled_after_ms
    end_ms = FAR_FUTURE_MS if settled_ms is None else record.submitted_at_ms + settled_ms
    had_ms = record.attained_gpu_ms * MILLI // gpu_milli
    least_ms = max(limits.minimum_run_ms, after_ms - record.started_at_ms)
    step = step_of(had_ms + least_ms) + 1
    at_ms = record.started_at_ms + step_begins_ms(step) - had_ms
    return at_ms if step < STEPS and at_ms < end_ms else NEVER_MS


def next_check_ms(state: FleetState, last_ms: int) -> int:
    """The next check of jobs with deadlines on spot pools, while any deadline is ahead.

    All of them are checked together, at whole ticks since the epoch. Between two checks a job on spot may run
    on, or a waiting one wait, because each check made sure that the next comes in time.
    """
    deadline_jobs = state.backlogs.deadline_jobs
    if not deadline_jobs:
        return NEVER_MS
    tick_ms = state.policies.spot.tick_ms
    next_ms = (last_ms // tick_ms + 1) * tick_ms
    is_ahead = any(next_ms < (one.deadline_ms or 0) for one in deadline_jobs.values())
    return next_ms if is_ahead else NEVER_MS
