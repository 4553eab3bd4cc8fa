"""The jobs of one kind, in the order in which they should start."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final

from bursar.core.experience import Prospect
from bursar.core.shape import ShapePlan
from bursar.model.attempt import Placement
from bursar.model.job import JobSpec, JobState
from bursar.model.kind import Kind
from bursar.model.policy import OrderPolicy, OrderTerm
from bursar.model.tenant import FlavorResource
from bursar.model.units import MILLI, SECOND_MS

FAR_FUTURE_MS: Final = 1 << 62

LineKey = tuple[str, int, int]
"""Queue, priority, and the number of the shape's plan."""

Rank = tuple[int | str, ...]
"""What a job is sorted by among those of its queue; ends with its id."""

# Members of an enum are looked up by a method of the enum; names of this module cost nothing.
_QUEUED: Final = JobState.QUEUED
_SUBMITTED, _DEADLINE = OrderTerm.SUBMITTED, OrderTerm.DEADLINE
_SHORTEST, _SMALLEST = OrderTerm.SHORTEST, OrderTerm.SMALLEST
_LEAST_WORK, _SHORTEST_REMAINING = OrderTerm.LEAST_WORK, OrderTerm.SHORTEST_REMAINING
_LEAST_EXPECTED: Final = OrderTerm.LEAST_EXPECTED
_NOBODY: Final[frozenset[str]] = frozenset()
_NOTHING: Final[Mapping[FlavorResource, int]] = MappingProxyType({})


class Claim:
    """A place kept for a job until the jobs that must leave it have left."""

    __slots__ = ("attempts", "placement")

    def __init__(self, placement: Placement, attempts: Mapping[str, int]) -> None:
        self.placement = placement
        self.attempts = attempts

    @property
    def victims(self) -> tuple[str, ...]:
        """Those who must leave, by id; ``attempts`` says which attempt of each."""
        return tuple(self.attempts)


class JobRecord:
    """One job and, while an attempt lives, what that attempt holds."""

    __slots__ = (
        "assigned_at_ms",
        "attained_gpu_ms",
        "attempt",
        "charged_micro_usd",
        "claim",
        "deadline_ms",
        "done_ms",
        "end_at_ms",
        "failures",
        "has_run",
        "id",
        "limit_at_ms",
        "line",
        "moving",
        "noticed",
        "placement",
        "preemptions",
        "priority",
        "prospect",
        "rank",
        "repriced_micro_usd",
        "request",
        "run_ms",
        "save_ms",
        "saved_at_ms",
        "saved_step",
        "spec",
        "started_at_ms",
        "state",
        "submitted_at_ms",
        "ticket",
        "told_to_stop",
        "unmet",
        "unprompted",
        "weight",
    )

    def __init__(self, job_id: str, spec: JobSpec, priority: int, at_ms: int) -> None:
        self.id = job_id
        self.spec = spec
        self.priority = priority
        self.submitted_at_ms = at_ms
        self.deadline_ms = deadline_of(spec, at_ms)
        self.state: JobState = _QUEUED
        self.attempt = 0
        self.preemptions = 0
        self.failures = 0
        self.done_ms = 0
        self.save_ms: int | None = None
        self.saved_step: int | None = None
        self.unprompted = 0
        self.has_run = False
        self.attained_gpu_ms = 0
        self.charged_micro_usd = 0
        self.unmet: frozenset[str] = _NOBODY
        self.rank: Rank = ()
        self.prospect: Prospect | None = None
        self.run_ms = 0
        self.line: KindLine
        self.claim: Claim | None = None
        self.ticket = 0
        self.forget_attempt()

    @property
    def queued_at_ms(self) -> int:
        """Since when the job counts as waiting: preemption goes by age."""
        return self.submitted_at_ms

    def forget_attempt(self) -> None:
        """Nothing is held any more."""
        self.placement: Placement | None = None
        self.request: Mapping[FlavorResource, int] = _NOTHING
        self.weight = self.assigned_at_ms = self.saved_at_ms = self.end_at_ms = 0
        self.started_at_ms: int | None = None
        self.limit_at_ms: int | None = None
        self.repriced_micro_usd: int | None = None
        self.told_to_stop = self.noticed = self.moving = False

    def __repr__(self) -> str:
        return f"<job {self.id} {self.state} attempt {self.attempt}>"


def deadline_of(spec: JobSpec, submitted_at_ms: int) -> int | None:
    """The moment by which the job should be done, from its deadline or its SLO."""
    if spec.deadline_ms is not None:
        return spec.deadline_ms
    return submitted_at_ms + spec.slo.within_ms if spec.slo is not None else None


def rank_of(record: JobRecord, policy: OrderPolicy, now_ms: int) -> Rank:
    """The job's place among others, by the policy's terms, then age, then id.

    A job that runs has the place it would have if it waited now, with what it has done so far.
    """
    spec = record.spec
    run_ms = spec.expected_run_ms or spec.max_run_ms or FAR_FUTURE_MS
    values: list[int | str] = []
    for term in policy.terms:
        if term is _SUBMITTED:
            values.append(record.submitted_at_ms)
        elif term is _DEADLINE:
            values.append(FAR_FUTURE_MS if record.deadline_ms is None else record.deadline_ms)
        elif term is _LEAST_EXPECTED:
            values.append(expected_gpu_ms(record, now_ms))
        elif term is _SHORTEST:
            values.append(run_ms)
        elif term is _LEAST_WORK:
            values.append(run_ms * max(1, record.line.plan.gpu_milli))
        elif term is _SMALLEST:
            values.append(record.line.plan.gpu_milli)
        elif term is _SHORTEST_REMAINING:
            running_ms = 0 if record.started_at_ms is None else now_ms - record.saved_at_ms
            values.append(max(0, run_ms - record.done_ms - running_ms))
        else:
            attained = attained_gpu_ms(record, now_ms)
            values.append(sum(attained >= level for level in policy.attained_levels_gpu_ms))
    values += (record.submitted_at_ms, record.id)
    return tuple(values)


def attained_gpu_ms(record: JobRecord, now_ms: int) -> int:
    """The GPU time a job has had in all its attempts, useful or not."""
    if record.started_at_ms is None:
        return record.attained_gpu_ms
    running_ms = now_ms - record.started_at_ms
    return record.attained_gpu_ms + running_ms * record.line.plan.gpu_milli // MILLI


def work_ms(record: JobRecord, elapsed_ms: int) -> int:
    """Work done in a stretch of time: an elastic gang with half its tasks is half as fast."""
    if elapsed_ms <= 0 or record.placement is None:
        return 0
    granted = sum(task.count for task in record.placement.all_tasks)
    return elapsed_ms * granted // record.line.plan.tasks


def remaining_ms(record: JobRecord) -> int:
    """What is left to run: a job that resumes from a checkpoint has the saved part behind it."""
    if not record.done_ms:
        return record.run_ms
    return max(SECOND_MS, record.run_ms - record.done_ms) + record.spec.checkpoint.restart_ms


def expected_gpu_ms(record: JobRecord, now_ms: int) -> int:
    """The GPU time that a job is expected to take in all, seen from now; 0 when nothing is known.

    What its user wrote is believed until the job has had it; then it is expected to take as much again.
    A job that came when nothing had been learned is not compared by what it wrote: others wrote nothing.
    """
    if record.prospect is None:
        return 0
    gpu_milli = max(1, record.line.plan.gpu_milli)
    had_ms = attained_gpu_ms(record, now_ms) * MILLI // gpu_milli
    told_ms = record.spec.expected_run_ms
    if told_ms is None:
        total_ms = record.prospect.total_ms(had_ms)
    else:
        total_ms = told_ms if had_ms < told_ms else 2 * had_ms
    return total_ms * gpu_milli // MILLI


class KindLine:
    """Waiting jobs of one kind: a heap with lazy removal, so that a long backlog costs nothing.

    Each time a job joins it gets a new ticket; an entry with an old ticket is a leftover. While anybody
    waits, the line stands in ``active``, so that a cycle never meets an empty one.
    """

    __slots__ = ("_active", "_heap", "count", "key", "kind", "members", "plan")

    def __init__(self, kind: Kind, plan: ShapePlan, active: dict[LineKey, KindLine]) -> None:
        self._active = active
        self.kind = kind
        self.plan = plan
        self.key: LineKey = (kind.queue, kind.priority, plan.id)
        self.count = 0
        self.members = 0
        self._heap: list[tuple[Rank, int, JobRecord]] = []

    def clear(self) -> None:
        """Drop leftovers of jobs that are gone, once nobody waits here."""
        self._heap.clear()

    def join(self, record: JobRecord) -> None:
        """A job starts waiting here, or waits again."""
        record.ticket += 1
        heappush(self._heap, (record.rank, record.ticket, record))
        self.count += 1
        if self.count == 1:
            self._active[self.key] = self

    def leave(self, record: JobRecord) -> None:
        """A job stopped waiting; its entry is dropped when it comes to the front."""
        record.ticket += 1
        self.count -= 1
        if not self.count:
            del self._active[self.key]
        if len(self._heap) > 2 * self.count + 64:
            self._heap = sorted(entry for entry in self._heap if entry[2].ticket == entry[1])

    def head(self) -> JobRecord | None:
        """The first waiting job."""
        heap = self._heap
        while heap:
            _, ticket, record = heap[0]
            if record.ticket == ticket:
                return record
            heappop(heap)
        return None

    def take(self) -> None:
        """Set the head aside while a cycle is being drafted; ``give_back`` undoes it."""
        heappop(self._heap)

    def give_back(self, record: JobRecord) -> None:
        """Undo ``take``."""
        heappush(self._heap, (record.rank, record.ticket, record))

    def jobs(self) -> list[JobRecord]:
        """All waiting jobs in order; for explanations, never for a cycle."""
        return [record for _, ticket, record in sorted(self._heap) if record.ticket == ticket]
