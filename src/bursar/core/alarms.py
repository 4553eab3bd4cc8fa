"""When a decision may change though nothing happens, so that a cycle is worth running.

Time alone matters in six ways: an attempt reaches its maximum run time; it has run long enough to be
preempted; it has had so much GPU time that others come before it; it outlives its expected end, which
moves the plans that counted on it; a waiting job comes so close to its deadline that it is urgent; a
waiting job has aged by a step. Whether anything follows
is for the core to say. An alarm that is too many costs a cycle; one that is missing costs a job its time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from bursar.core.attempt_limits import with_ceiling
from bursar.core.experience import STEPS, step_begins_ms, step_of
from bursar.core.line import FAR_FUTURE_MS, JobRecord
from bursar.core.state import FleetState
from bursar.model.event import (
    AttemptAssigned,
    AttemptResumed,
    AttemptStarted,
    CheckpointSaved,
    Event,
    JobSubmitted,
    PriceChanged,
)
from bursar.model.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.model.made_often import made_often
from bursar.model.policy import OrderTerm, Policies, WithinQueue
from bursar.model.units import MILLI

NEVER_MS: Final = 1 << 62
PILED_UP: Final = 4_096
"""Alarms that nobody has asked for; when there are more, those of attempts that are over are dropped."""
_LEAST_ATTAINED: Final = OrderTerm.LEAST_ATTAINED
_LATER_IN_ORDER: Final = WithinQueue.LATER_IN_ORDER


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Wake:
    """Nothing happens, but time alone may change a decision about this attempt (0: none yet)."""

    at_ms: int
    job_id: str
    attempt: int

    def __init__(self, *, at_ms: int, job_id: str, attempt: int) -> None:
        self.at_ms = at_ms  # type: ignore[misc]
        self.job_id = job_id  # type: ignore[misc]
        self.attempt = attempt  # type: ignore[misc]


made_often(Wake)

QUIET: Final = frozenset({AttemptStarted, CheckpointSaved, AttemptResumed})
"""Events that give nobody room, quota or rank: no hold can end by them."""


def calls_for_a_cycle(events: Iterable[Event]) -> bool:
    """Whether any event could change an answer."""
    return not QUIET.issuperset(map(type, events))


def wakes_after(state: FleetState, event: Event) -> Iterable[Wake]:
    """The moments at which time alone may matter, now that an event has been applied."""
    match event:
        case AttemptAssigned():
            return _after_assignment(state, event)
        case AttemptStarted(job_id=job_id) if (started := state.jobs.get(job_id)) is not None:
            return [*wakes_after_start(state, started), *_first_outlasting(state, started)]
        case JobSubmitted(job_id=job_id):
            return wakes_after_submission(state, state.jobs[job_id])
        case PriceChanged(pool=pool):
            repriced = with_ceiling(state, pool)
            return [wake for one in repriced for wake in wakes_after_start(state, one)]
        case _:
            return ()


def attempts_matter(policies: Policies) -> bool:
    """Whether the age and the lateness of attempts make a difference to those who wait.

    Where nothing is planned around expected ends and nobody is preempted, they do not.
    """
    return policies.backfill.reservations > 0 or policies.preemption.searches_per_cycle > 0


def _after_assignment(state: FleetState, event: AttemptAssigned) -> Iterator[Wake]:
    if attempts_matter(state.policies):
        old_enough_ms = event.at_ms + state.policies.preemption.minimum_run_ms
        end_at_ms = state.jobs[event.job_id].end_at_ms
        yield Wake(at_ms=old_enough_ms, job_id=event.job_id, attempt=event.attempt)
        yield Wake(at_ms=end_at_ms, job_id=event.job_id, attempt=event.attempt)


def wakes_after_start(state: FleetState, started: JobRecord) -> Iterable[Wake]:
    """When an attempt will be over its limit, or fall behind others by what it has had."""
    falls = _LEAST_ATTAINED in state.policies.order.terms
    if started.limit_at_ms is None and not falls:
        return ()
    moments = [] if started.limit_at_ms is None else [started.limit_at_ms]
    if falls:
        moments += _falls(state, started)
    return [Wake(at_ms=at_ms, job_id=started.id, attempt=started.attempt) for at_ms in moments]


def _first_outlasting(state: FleetState, started: JobRecord) -> Iterator[Wake]:
    at_ms = next_outlasting_ms(state, started, started.started_at_ms or 0)
    if at_ms != NEVER_MS:
        yield Wake(at_ms=at_ms, job_id=started.id, attempt=started.attempt)


def next_outlasting_ms(state: FleetState, record: JobRecord, after_ms: int) -> int:
    """When a running job will next have run so long that more is expected of it, and may have to yield."""
    rule = state.preemption_policies[record.spec.queue].within_queue
    if rule is not _LATER_IN_ORDER or record.prospect is None:
        return NEVER_MS
    gpu_milli = record.line.plan.gpu_milli
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


def _outlasts_again(state: FleetState, record: JobRecord, wake: Wake) -> Wake | None:
    """The next moment at which it outlasts what was expected, if this alarm was for one."""
    gpu_milli, started_at_ms = record.line.plan.gpu_milli, record.started_at_ms
    if record.attempt != wake.attempt or started_at_ms is None or not gpu_milli:
        return None
    ran_ms = record.attained_gpu_ms * MILLI // gpu_milli + wake.at_ms - started_at_ms
    if ran_ms < 0 or ran_ms != step_begins_ms(step_of(ran_ms)):
        return None
    at_ms = next_outlasting_ms(state, record, wake.at_ms)
    if at_ms == NEVER_MS:
        return None
    return Wake(at_ms=at_ms, job_id=record.id, attempt=record.attempt)


def wakes_after_submission(state: FleetState, record: JobRecord) -> Iterator[Wake]:
    """When a waiting job will be urgent, and when it will have aged by a step."""
    order, at_ms = state.policies.order, record.submitted_at_ms
    if record.deadline_ms is not None:
        slack_ms = record.deadline_ms - record.run_ms - at_ms
        if slack_ms >= order.urgent_slack_ms:
            urgent_ms = at_ms + slack_ms - order.urgent_slack_ms + 1
            yield Wake(at_ms=urgent_ms, job_id=record.id, attempt=0)
    if order.aging_step_ms:
        yield Wake(at_ms=at_ms + order.aging_step_ms, job_id=record.id, attempt=0)


def _falls(state: FleetState, record: JobRecord) -> Iterator[int]:
    """When a running job will have had so much GPU time that it falls to a lower level."""
    gpu_milli = record.line.plan.gpu_milli
    if record.started_at_ms is None or not gpu_milli:
        return
    for level in state.policies.order.attained_levels_gpu_ms:
        left = level - record.attained_gpu_ms
        if left > 0:
            yield record.started_at_ms - (-left * MILLI // gpu_milli)


class AttemptAlarms:
    """The alarms of all attempts, for whoever plays time forward: asked for, instead of set one by one.

    They matter only while somebody waits, and then the next one is read off what the state knows: ages
    come in the order of the assignments, expected ends stand sorted in their pools, and when an attempt
    outlasts what was expected of it is worked out when somebody first asks. So an attempt that starts
    while nobody waits costs nothing. They ring when those of ``wakes_after`` would.
    """

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self.are_set = attempts_matter(state.policies)
        self._ages: deque[tuple[int, str, int]] = deque()
        self._started: list[tuple[str, int]] = []
        self._outlasting: list[tuple[int, str, int]] = []
        self._heard_ms = -1

    def assigned(self, event: AttemptAssigned) -> None:
        """An attempt will be old enough to be preempted one day."""
        if self.are_set:
            old_enough_ms = event.at_ms + self._state.policies.preemption.minimum_run_ms
            self._ages.append((old_enough_ms, event.job_id, event.attempt))
            if len(self._ages) > PILED_UP and self._are_mostly_over(len(self._ages)):
                self._ages = deque(age for age in self._ages if self._lives(age[1], age[2]))

    def started(self, record: JobRecord) -> None:
        """An attempt may come to outlast what is expected of it."""
        if self.are_set and record.prospect is not None:
            self._started.append((record.id, record.attempt))
            if len(self._started) > PILED_UP and self._are_mostly_over(len(self._started)):
                self._started = [one for one in self._started if self._lives(*one)]

    def _are_mostly_over(self, alarms: int) -> bool:
        """Whether most alarms must be of attempts that ended while nobody asked."""
        return alarms > 2 * len(self._state.jobs)

    def next_ms(self) -> int:
        """When the next alarm rings that was not heard yet."""
        if not self.are_set:
            return NEVER_MS
        ages = self._ages
        while ages and not self._lives(ages[0][1], ages[0][2]):
            ages.popleft()
        found = min(ages[0][0] if ages else NEVER_MS, self._next_outlasting_ms())
        for pool in self._state.pools.values():
            ends = pool.ends
            place = bisect_left(ends, (self._heard_ms + 1, ""))
            if place < len(ends):
                found = min(found, ends[place][0])
        return found

    def _next_outlasting_ms(self) -> int:
        """Work out what was put off: for attempts started since, and those whose moment has passed."""
        for job_id, attempt in self._started:
            self._await_outlasting(job_id, attempt)
        self._started.clear()
        coming = self._outlasting
        while coming and (coming[0][0] <= self._heard_ms or not self._lives(*coming[0][1:])):
            _, job_id, attempt = heappop(coming)
            self._await_outlasting(job_id, attempt)
        return coming[0][0] if coming else NEVER_MS

    def _await_outlasting(self, job_id: str, attempt: int) -> None:
        if self._lives(job_id, attempt):
            record = self._state.jobs[job_id]
            at_ms = next_outlasting_ms(self._state, record, self._heard_ms)
            if at_ms != NEVER_MS:
                heappush(self._outlasting, (at_ms, job_id, attempt))

    def pass_by(self, now_ms: int) -> None:
        """Nobody has waited up to now: whatever would have rung is over."""
        ages = self._ages
        while ages and ages[0][0] <= now_ms:
            ages.popleft()
        self._heard_ms = now_ms

    def hear(self, now_ms: int) -> bool:
        """Pass the alarms up to now, while somebody waits; whether one rings now."""
        ages, rings = self._ages, False
        while ages and ages[0][0] <= now_ms:
            at_ms, job_id, attempt = ages.popleft()
            rings = rings or (at_ms == now_ms and self._lives(job_id, attempt))
        if not rings and now_ms > self._heard_ms:
            rings = self._next_outlasting_ms() == now_ms or any(
                self._ends_now(pool.ends, now_ms) for pool in self._state.pools.values()
            )
        self._heard_ms = now_ms
        return rings

    def _lives(self, job_id: str, attempt: int) -> bool:
        record = self._state.jobs.get(job_id)
        return record is not None and record.attempt == attempt and record.state in LIVE

    @staticmethod
    def _ends_now(ends: list[tuple[int, str]], now_ms: int) -> bool:
        place = bisect_left(ends, (now_ms, ""))
        return place < len(ends) and ends[place][0] == now_ms


def wake_again(state: FleetState, wake: Wake) -> Wake | None:
    """The next step of a job that ages or runs for long, once the present one has come."""
    if not wake.attempt:
        return ages_again(state, wake)
    record = state.jobs.get(wake.job_id)
    return None if record is None else _outlasts_again(state, record, wake)


def ages_again(state: FleetState, wake: Wake) -> Wake | None:
    """The next step of a waiting job that ages, once the present one has come."""
    record, step_ms = state.jobs.get(wake.job_id), state.policies.order.aging_step_ms
    if record is None or wake.attempt or not step_ms:
        return None
    if (wake.at_ms - record.submitted_at_ms) % step_ms:
        return None
    return Wake(at_ms=wake.at_ms + step_ms, job_id=wake.job_id, attempt=0)


def still_matters(state: FleetState, wake: Wake, *, someone_waits: bool) -> bool:
    """Whether what an alarm was set for is still so.

    An attempt's age and lateness matter only to those who wait; its time limit matters always. An alarm
    of no job is for all who are steered by their deadlines.
    """
    record = state.jobs.get(wake.job_id)
    if record is None:
        return not wake.job_id and bool(state.book.steered)
    if not wake.attempt:
        return record.state is JobState.QUEUED
    if record.attempt != wake.attempt or record.state not in LIVE:
        return False
    return someone_waits or record.limit_at_ms == wake.at_ms
