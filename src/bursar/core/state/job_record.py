"""A job's record, its progress and what its attempt holds; the waiting jobs of one kind are a backlog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final

from bursar.core.placement.pool_fit import ShapePlan
from bursar.core.state.run_time_model import RunTimeEstimate
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobKind, JobSpec, JobState
from bursar.model.lifecycle import LIVE
from bursar.model.state_snapshot import Claim
from bursar.model.tenants.policy import OrderPolicy, OrderTerm
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import MILLI, SECOND_MS

FAR_FUTURE_MS: Final = 1 << 62

Rank = tuple[int | str, ...]
"""The sort key of a job in its queue; ends with its id."""

BacklogKey = tuple[str, int, int]
"""Queue, priority, and the number of the shape's plan."""

# Enum members are resolved by a method call; module constants are cheaper.
_QUEUED: Final = JobState.QUEUED
_SUBMITTED, _DEADLINE = OrderTerm.SUBMITTED, OrderTerm.DEADLINE
_SHORTEST, _SMALLEST = OrderTerm.SHORTEST, OrderTerm.SMALLEST
_LEAST_WORK, _SHORTEST_REMAINING = OrderTerm.LEAST_WORK, OrderTerm.SHORTEST_REMAINING
_LEAST_EXPECTED: Final = OrderTerm.LEAST_EXPECTED
_NO_JOBS: Final[frozenset[str]] = frozenset()
_NOTHING: Final[Mapping[FlavorResource, int]] = MappingProxyType({})


class Backlog:
    """Waiting jobs of one kind: a heap with lazy removal, so that a long backlog costs nothing.

    Each time a job joins it gets a new ticket; an entry with an old ticket is stale. While jobs wait, the
    backlog is in ``active``, so that a cycle never visits an empty one.
    """

    __slots__ = ("_active", "_heap", "count", "key", "kind", "members", "plan")

    def __init__(self, kind: JobKind, plan: ShapePlan, active: dict[BacklogKey, Backlog]) -> None:
        self._active = active
        self.kind = kind
        self.plan = plan
        self.key: BacklogKey = (kind.queue, kind.priority, plan.id)
        self.count = 0
        self.members = 0
        self._heap: list[tuple[Rank, int, JobRecord]] = []

    def clear(self) -> None:
        """Drop stale entries, once no job waits here."""
        self._heap.clear()

    def join(self, record: JobRecord) -> None:
        """Add a job that starts waiting."""
        record.ticket += 1
        heappush(self._heap, (record.rank, record.ticket, record))
        self.count += 1
        if self.count == 1:
            self._active[self.key] = self

    def leave(self, record: JobRecord) -> None:
        """Remove a job; its entry is dropped when it reaches the front."""
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
        """Remove the head for the rest of a draft; ``give_back`` undoes it."""
        heappop(self._heap)

    def give_back(self, record: JobRecord) -> None:
        """Undo ``take``."""
        heappush(self._heap, (record.rank, record.ticket, record))

    def jobs(self) -> list[JobRecord]:
        """All waiting jobs in order; for explanations, never for a cycle."""
        return [record for _, ticket, record in sorted(self._heap) if record.ticket == ticket]


@dataclass(slots=True, eq=False, repr=False)
class JobRecord:
    """One job and, while an attempt is live, what that attempt holds."""

    id: str
    spec: JobSpec
    priority: int
    submitted_at_ms: int
    deadline_ms: int | None = field(init=False)
    state: JobState = _QUEUED
    attempt: int = 0
    preemptions: int = 0
    failures: int = 0
    done_ms: int = 0
    save_ms: int | None = None
    saved_step: int | None = None
    unprompted: int = 0
    has_run: bool = False
    attained_gpu_ms: int = 0
    charged_micro_usd: int = 0
    unmet: frozenset[str] = _NO_JOBS
    rank: Rank = ()
    run_time_estimate: RunTimeEstimate | None = None
    run_ms: int = 0
    backlog: Backlog = field(init=False)
    claim: Claim | None = None
    ticket: int = 0
    placement: Placement | None = None
    request: Mapping[FlavorResource, int] = field(init=False)
    weight: int = 0
    assigned_at_ms: int = 0
    started_at_ms: int | None = None
    saved_at_ms: int = 0
    end_at_ms: int = 0
    limit_at_ms: int | None = None
    repriced_micro_usd: int | None = None
    stop_requested: bool = False
    noticed: bool = False
    moving: bool = False

    def __post_init__(self) -> None:
        self.deadline_ms = deadline_of(self.spec, self.submitted_at_ms)
        self.request = _NOTHING

    @property
    def queued_at_ms(self) -> int:
        """Since when the job counts as waiting: preemption goes by age."""
        return self.submitted_at_ms

    @property
    def is_live(self) -> bool:
        """Whether its newest attempt holds capacity."""
        return self.state in LIVE

    def forget_attempt(self) -> None:
        """Clear what belongs to an ended attempt."""
        self.placement, self.request = None, _NOTHING
        self.weight = self.assigned_at_ms = self.saved_at_ms = self.end_at_ms = 0
        self.started_at_ms = self.limit_at_ms = self.repriced_micro_usd = None
        self.stop_requested = self.noticed = self.moving = False

    def __repr__(self) -> str:
        return f"<job {self.id} {self.state} attempt {self.attempt}>"


def deadline_of(spec: JobSpec, submitted_at_ms: int) -> int | None:
    """When the job should be done, from its deadline or its SLO."""
    if spec.deadline_ms is not None:
        return spec.deadline_ms
    return submitted_at_ms + spec.slo.within_ms if spec.slo is not None else None


def rank_of(record: JobRecord, policy: OrderPolicy, now_ms: int) -> Rank:
    """The job's rank by the policy's terms, then age, then id.

    A running job has the rank it would have if it waited now, with its work so far.
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
            values.append(run_ms * max(1, record.backlog.plan.gpu_milli))
        elif term is _SMALLEST:
            values.append(record.backlog.plan.gpu_milli)
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
    return record.attained_gpu_ms + running_ms * record.backlog.plan.gpu_milli // MILLI


def work_ms(record: JobRecord, elapsed_ms: int) -> int:
    """Work done in a time: an elastic gang with half its tasks is half as fast."""
    if elapsed_ms <= 0 or record.placement is None:
        return 0
    granted = sum(task.count for task in record.placement.all_tasks)
    return elapsed_ms * granted // record.backlog.plan.tasks


def remaining_ms(record: JobRecord) -> int:
    """The remaining run time; a job that resumes need not repeat its saved work."""
    if not record.done_ms:
        return record.run_ms
    return max(SECOND_MS, record.run_ms - record.done_ms) + record.spec.checkpoint.restart_ms


def expected_gpu_ms(record: JobRecord, now_ms: int) -> int:
    """The GPU time that a job is expected to take in all; 0 when nothing is known.

    The user's estimate holds until the job has exceeded it; then it is expected to take as much again. It is
    ignored for jobs submitted before anything was learned, because others gave no estimate.
    """
    if record.run_time_estimate is None:
        return 0
    gpu_milli = max(1, record.backlog.plan.gpu_milli)
    had_ms = attained_gpu_ms(record, now_ms) * MILLI // gpu_milli
    user_estimate_ms = record.spec.expected_run_ms
    if user_estimate_ms is None:
        total_ms = record.run_time_estimate.total_ms(had_ms)
    else:
        total_ms = user_estimate_ms if had_ms < user_estimate_ms else 2 * had_ms
    return total_ms * gpu_milli // MILLI
