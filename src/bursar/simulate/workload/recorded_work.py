"""The external events and the useful work of each job in a recorded history.

Scheduling decisions are dropped. The useful work of a job is what its checkpoints saved, and its last
attempt up to its end, without restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptStarted,
    AttemptStopping,
    AttemptSucceeded,
    CheckpointSaved,
    Event,
    ForeignUsageSeen,
    JobCancelled,
    JobSubmitted,
    NodeAdded,
    NodeDrained,
    NodeLost,
    NodeRestored,
    PriceChanged,
    SpotNotice,
    TenantChanged,
)
from bursar.model.units import DAY_MS
from bursar.simulate.scenario import Delays

EXTERNAL = (
    *(JobSubmitted, JobCancelled, NodeAdded, NodeDrained, NodeRestored, NodeLost),
    *(SpotNotice, ForeignUsageSeen, TenantChanged, PriceChanged),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """External events in order of time, true run times, and the delays of the engines."""

    events: tuple[Event, ...]
    run_ms: Mapping[str, int]
    delays: Delays
    jobs: int
    notes: tuple[str, ...]


class JobWork:
    """The useful work of a job so far.

    ``task_ms`` counts it exactly, as tasks times milliseconds; ``done_ms`` is the time at full size.
    ``since_ms`` is the start of unsaved work; None while the job waits. Work that a preemption or a
    failure lost does not count, nor does the restart of a later attempt, and an hour with half of an
    elastic gang is half an hour of work.
    """

    __slots__ = ("granted", "has_run", "since_ms", "submitted", "task_ms")

    def __init__(self, submitted: JobSubmitted) -> None:
        self.submitted = submitted
        self.task_ms = 0
        self.granted = self.full_size
        self.since_ms: int | None = None
        self.has_run = False

    @property
    def full_size(self) -> int:
        return sum(group.count for group in self.submitted.spec.groups)

    @property
    def done_ms(self) -> int:
        return round(self.task_ms / max(1, self.full_size))

    def apply(self, event: Event) -> None:
        """Applies the events of a live attempt; the caller handles its end."""
        if isinstance(event, AttemptAssigned):
            self.granted = sum(task.count for task in event.placement.all_tasks)
        elif isinstance(event, AttemptStarted):
            restart_ms = self.submitted.spec.checkpoint.restart_ms if self.has_run else 0
            self.since_ms, self.has_run = event.at_ms + restart_ms, True
        elif isinstance(event, CheckpointSaved):
            self.save(event.at_ms)

    def save(self, until_ms: int) -> None:
        """Counts the work up to a time as done."""
        if self.since_ms is not None:
            self.task_ms += self.unsaved(until_ms)
            self.since_ms = until_ms

    def unsaved(self, until_ms: int) -> int:
        """The work since the last checkpoint, as tasks times milliseconds."""
        return 0 if self.since_ms is None else max(0, until_ms - self.since_ms) * self.granted


class _RecordedJob(JobWork):
    """A job of a history, with how it ended.

    The unsaved work of a failed attempt, ``failed_task_ms``, counts only if no attempt starts after it.
    """

    __slots__ = ("cancelled_ms", "ended", "failed_task_ms")

    def __init__(self, submitted: JobSubmitted) -> None:
        super().__init__(submitted)
        self.ended: type[Event] | None = None
        self.failed_task_ms = 0
        self.cancelled_ms: int | None = None

    def run_ms(self, now_ms: int) -> int:
        """The true run time; a cancelled job runs until its user cancels it again."""
        spec = self.submitted.spec
        if self.cancelled_ms is not None and self.ended is not AttemptSucceeded:
            return max(1, self.cancelled_ms - self.submitted.at_ms + 1)
        if self.ended is None:
            self.save(now_ms)
            return max(1, self.done_ms, spec.expected_run_ms or spec.max_run_ms or DAY_MS)
        if self.ended is AttemptFailed:
            self.task_ms, self.failed_task_ms = self.task_ms + self.failed_task_ms, 0
        return max(1, self.done_ms)


class _Reader:
    """Reads a history in one pass."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.jobs: dict[str, _RecordedJob] = {}
        self.starts_ms: list[int] = []
        self.stops_ms: list[int] = []
        self._since: dict[str, int] = {}
        self.now_ms = 0

    def read(self, event: Event) -> None:
        self.now_ms = max(self.now_ms, event.at_ms)
        if isinstance(event, EXTERNAL):
            self.events.append(event)
        if isinstance(event, JobSubmitted):
            self.jobs[event.job_id] = _RecordedJob(event)
            return
        job = self.jobs.get(getattr(event, "job_id", ""))
        if job is not None:
            self._apply(job, event)

    def _apply(self, job: _RecordedJob, event: Event) -> None:
        job.apply(event)
        match event:
            case AttemptAssigned(job_id=job_id) | AttemptStopping(job_id=job_id):
                self._since[job_id] = event.at_ms
            case AttemptStarted(job_id=job_id):
                self.starts_ms.append(event.at_ms - self._since.pop(job_id, event.at_ms))
                job.ended, job.failed_task_ms = None, 0
            case AttemptPreempted(job_id=job_id):
                if job_id in self._since:
                    self.stops_ms.append(event.at_ms - self._since.pop(job_id))
                job.since_ms = None
            case AttemptSucceeded():
                job.save(event.at_ms)
                job.ended = AttemptSucceeded
            case AttemptFailed():
                job.failed_task_ms += job.unsaved(event.at_ms)
                job.since_ms, job.ended = None, AttemptFailed
            case JobCancelled():
                job.cancelled_ms = event.at_ms
            case _:
                pass


def read_history(events: Iterable[Event]) -> History:
    """Reads the events of a log in one pass."""
    reader = _Reader()
    for event in events:
        reader.read(event)
    jobs = reader.jobs
    unfinished = sum(one.ended is None and one.cancelled_ms is None for one in jobs.values())
    failed = sum(one.ended is AttemptFailed for one in jobs.values())
    usual = Delays()
    notes = []
    if unfinished:
        notes.append(f"{unfinished:,} jobs had not ended in the log: they run as long as expected")
    if failed:
        notes.append(f"{failed:,} jobs had failed: they run as long as they did and succeed")
    return History(
        events=tuple(reader.events),
        run_ms={job_id: one.run_ms(reader.now_ms) for job_id, one in jobs.items()},
        delays=Delays(
            start_ms=round(median(reader.starts_ms)) if reader.starts_ms else usual.start_ms,
            stop_ms=round(median(reader.stops_ms)) if reader.stops_ms else usual.stop_ms,
        ),
        jobs=len(jobs),
        notes=tuple(notes),
    )
