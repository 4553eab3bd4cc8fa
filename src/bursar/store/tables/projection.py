"""Projects the log to tables: one pure fold, used by every append and every rebuild.

Rows are immutable; folding an event replaces them. The rows that a batch can change are read first
(``touched_rows.py``), the batch is folded in memory, and the changed rows are written. Job states follow
the transitions of ``model/lifecycle.py``, as in the core; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from bursar.codec import to_text
from bursar.model import event as ev
from bursar.model.errors import BrokenInvariant
from bursar.model.jobs.attempt import Exit
from bursar.model.jobs.job import OVER, JobState
from bursar.model.lifecycle import LIVE, fence, next_state
from bursar.store.tables.codec import node_mark, storable


class JobFacts(NamedTuple):
    """One row of ``jobs``, in the order of its columns.

    ``started_at_ms`` and the exit are the newest attempt's, ``ended_at_ms`` is the job's own.
    """

    sequence: int
    id: str
    name: str
    queue: str
    owner: str
    origin: int | None
    state: JobState
    priority: int
    retries: int
    attempt: int = 0
    failures: int = 0
    preemptions: int = 0
    submitted_at_ms: int = 0
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    exit_detail: str = ""

    @property
    def is_live(self) -> bool:
        """Whether its newest attempt occupies capacity."""
        return self.state in LIVE


class AttemptFacts(NamedTuple):
    """One row of ``attempts``, in the order of its columns."""

    job_id: str
    attempt: int
    placement: str
    assigned_at_ms: int
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    outcome: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    exit_detail: str = ""
    saved_at_ms: int | None = None
    ended_by: int | None = None
    saved_step: int | None = None
    resumed_at_ms: int | None = None
    resumed_step: int | None = None


class OriginRef(NamedTuple):
    """Key and owner of a job's origin."""

    id: int | None = None
    owner: str = ""


NO_ORIGIN = OriginRef()
Wait = tuple[str, str]
"""A dependency and the job that waits for its success."""


class Rows:
    """The rows that a batch can change; for a rebuild, all rows."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobFacts] = {}
        self.attempts: dict[tuple[str, int], AttemptFacts] = {}
        self.unmet: dict[str, set[str]] = {}
        self.dependents: dict[str, set[str]] = {}
        self.live: set[str] = set()

    def load(
        self,
        jobs: Iterable[JobFacts],
        attempts: Iterable[AttemptFacts],
        waits: Iterable[Wait],
    ) -> None:
        for job in jobs:
            self.jobs[job.id] = job
            if job.is_live:
                self.live.add(job.id)
        for attempt in attempts:
            self.attempts[attempt.job_id, attempt.attempt] = attempt
        for dependency, job_id in waits:
            self.add_wait(dependency, job_id)

    def add_wait(self, dependency: str, job_id: str) -> None:
        self.unmet.setdefault(job_id, set()).add(dependency)
        self.dependents.setdefault(dependency, set()).add(job_id)

    def drop_wait(self, dependency: str, job_id: str) -> None:
        self.unmet[job_id].discard(dependency)
        self.dependents[dependency].discard(job_id)

    def waits(self) -> set[Wait]:
        return {(one, job_id) for job_id, unmet in self.unmet.items() for one in unmet}


def fold(rows: Rows, sequence: int, event: ev.LoggedEvent, origin: OriginRef = NO_ORIGIN) -> None:
    """Applies one event to the rows. An event of a stale attempt changes nothing."""
    match event:
        case ev.JobSubmitted():
            _submit(rows, sequence, event, origin)
        case ev.JobCancelled():
            _cancel(rows, event)
        case ev.AttemptAssigned():
            _assign(rows, event)
        case (
            ev.AttemptStarted()
            | ev.CheckpointSaved()
            | ev.AttemptResumed()
            | ev.AttemptStopping()
            | ev.AttemptExpired()
        ):
            _update_attempt(rows, event)
        case ev.AttemptSucceeded():
            _end(rows, sequence, event, Exit(code=0))
        case ev.AttemptPreempted() | ev.AttemptFailed():
            _end(rows, sequence, event, event.exit or Exit())
        case ev.NodeLost():
            _lose_node(rows, sequence, event)
        case ev.PlacementClaimed() | ev.ClaimReleased() | ev.FleetDeclared():
            pass
        case ev.NodeAdded() | ev.NodeDrained() | ev.NodeRestored() | ev.ForeignUsageSeen():
            pass
        case ev.SpotNotice():
            pass
        case ev.GpuPartitioned() | ev.TenantChanged() | ev.PriceChanged() | ev.BillReceived():
            pass
        case ev.BudgetLevelChanged():
            pass
        case _:
            assert_never(event)


def _submit(rows: Rows, sequence: int, event: ev.JobSubmitted, origin: OriginRef) -> None:
    spec = event.spec
    if event.job_id in rows.jobs:
        raise BrokenInvariant(f"job {event.job_id} was submitted twice")
    unmet = [one for one in spec.depends_on if not _has_succeeded(rows, one)]
    for dependency in unmet:
        rows.add_wait(dependency, event.job_id)
    rows.jobs[event.job_id] = JobFacts(
        sequence=sequence,
        id=event.job_id,
        name=storable(spec.name),
        queue=storable(spec.queue),
        owner=storable(origin.owner),
        origin=origin.id,
        state=JobState.BLOCKED if unmet else JobState.QUEUED,
        priority=event.priority,
        retries=spec.retries,
        submitted_at_ms=event.at_ms,
    )


def _has_succeeded(rows: Rows, job_id: str) -> bool:
    job = rows.jobs.get(job_id)
    return job is not None and job.state is JobState.SUCCEEDED


def _cancel(rows: Rows, event: ev.JobCancelled) -> None:
    job = rows.jobs.get(event.job_id)
    if job is None or job.state in OVER:
        return
    state = _next_state(job, type(event))
    if state is JobState.CANCELLED:
        for dependency in sorted(rows.unmet.get(job.id, ())):
            rows.drop_wait(dependency, job.id)
        job = job._replace(ended_at_ms=event.at_ms)
    rows.jobs[job.id] = job._replace(state=state)


def _assign(rows: Rows, event: ev.AttemptAssigned) -> None:
    job = rows.jobs.get(event.job_id)
    if job is None or event.attempt != job.attempt + 1:
        raise BrokenInvariant(
            f"{_describe(job, event.job_id)} cannot be assigned attempt {event.attempt}"
        )
    rows.jobs[job.id] = job._replace(
        state=_next_state(job, type(event)),
        attempt=event.attempt,
        started_at_ms=None,
        exit_code=None,
        exit_signal=None,
        exit_detail="",
    )
    rows.live.add(job.id)
    rows.attempts[job.id, event.attempt] = AttemptFacts(
        job_id=job.id,
        attempt=event.attempt,
        placement=to_text(event.placement),
        assigned_at_ms=event.at_ms,
    )


AttemptUpdate = (
    ev.AttemptStarted
    | ev.CheckpointSaved
    | ev.AttemptResumed
    | ev.AttemptStopping
    | ev.AttemptExpired
)


def _update_attempt(rows: Rows, event: AttemptUpdate) -> None:
    job = fence(rows.jobs.get(event.job_id), event.attempt)
    if job is None:
        return
    rows.jobs[job.id] = job = job._replace(state=_next_state(job, type(event)))
    key = job.id, job.attempt
    attempt = rows.attempts[key]
    if isinstance(event, ev.AttemptStarted) and attempt.started_at_ms is None:
        rows.jobs[job.id] = job._replace(started_at_ms=event.at_ms)
        rows.attempts[key] = attempt._replace(started_at_ms=event.at_ms)
    elif isinstance(event, ev.CheckpointSaved):
        saved_at_ms = max(event.at_ms, attempt.saved_at_ms or event.at_ms)
        rows.attempts[key] = attempt._replace(
            saved_at_ms=saved_at_ms,
            saved_step=attempt.saved_step if event.step is None else event.step,
        )
    elif isinstance(event, ev.AttemptResumed):
        rows.attempts[key] = attempt._replace(resumed_at_ms=event.at_ms, resumed_step=event.step)


Ended = ev.AttemptEnded | ev.NodeLost


def _end(rows: Rows, sequence: int, event: ev.AttemptEnded, exit_status: Exit) -> None:
    job = fence(rows.jobs.get(event.job_id), event.attempt)
    if job is None:
        return
    if isinstance(event, ev.AttemptFailed):
        job = job._replace(failures=job.failures + 1)
    elif isinstance(event, ev.AttemptPreempted) and event.cause is ev.PreemptionCause.ORDER:
        job = job._replace(preemptions=job.preemptions + 1)
    _end_attempt(rows, sequence, event, (job, exit_status))


def _lose_node(rows: Rows, sequence: int, event: ev.NodeLost) -> None:
    node_text = node_mark(event.node)
    exit_status = Exit(detail=f"node {event.node} was lost")
    for job_id in sorted(rows.live):
        job = rows.jobs[job_id]
        if node_text in rows.attempts[job.id, job.attempt].placement:
            _end_attempt(rows, sequence, event, (job, exit_status))


def _end_attempt(rows: Rows, sequence: int, event: Ended, ended: tuple[JobFacts, Exit]) -> None:
    job, exit_status = ended
    detail = storable(exit_status.detail)
    state = _next_state(job, type(event))
    rows.jobs[job.id] = job._replace(
        state=state,
        ended_at_ms=event.at_ms if state in OVER else None,
        exit_code=exit_status.code,
        exit_signal=exit_status.signal,
        exit_detail=detail,
    )
    rows.live.discard(job.id)
    key = job.id, job.attempt
    rows.attempts[key] = rows.attempts[key]._replace(
        ended_at_ms=event.at_ms,
        outcome=type(event).__name__,
        ended_by=sequence,
        exit_code=exit_status.code,
        exit_signal=exit_status.signal,
        exit_detail=detail,
    )
    if state is JobState.SUCCEEDED:
        _unblock_dependents(rows, job.id)


def _unblock_dependents(rows: Rows, job_id: str) -> None:
    for dependent_id in sorted(rows.dependents.get(job_id, ())):
        rows.drop_wait(job_id, dependent_id)
        if not rows.unmet[dependent_id]:
            rows.jobs[dependent_id] = rows.jobs[dependent_id]._replace(state=JobState.QUEUED)


def _next_state(job: JobFacts, event: type) -> JobState:
    """State of a job after an event. ``job.failures`` already includes this failure."""
    retries_left = job.retries - job.failures + 1
    return next_state(job.state, event, retries_left, _describe(job, job.id))


def _describe(job: JobFacts | None, job_id: str) -> str:
    return f"<job {job_id} {job.state} attempt {job.attempt}>" if job else f"<job {job_id} unknown>"
