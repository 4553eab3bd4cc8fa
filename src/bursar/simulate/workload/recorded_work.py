"""What a recorded history holds that no decision made: who asked for what, and how much work it was.

Everything that the scheduler did is left behind. A job's work is the time that counted: what its
checkpoints saved, and its last attempt to its end, without the time it took to get back to where it was.
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

FROM_OUTSIDE = (
    *(JobSubmitted, JobCancelled, NodeAdded, NodeDrained, NodeRestored, NodeLost),
    *(SpotNotice, ForeignUsageSeen, TenantChanged, PriceChanged),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Events from outside in order of time, how long each job really runs, and how slow engines are."""

    events: tuple[Event, ...]
    run_ms: Mapping[str, int]
    delays: Delays
    jobs: int
    notes: tuple[str, ...]


class _Story:
    """One job so far. ``since_ms`` is the start of work that is not yet safe; None while it waits."""

    __slots__ = ("done_ms", "ended", "given_up_ms", "granted", "has_run", "since_ms", "submitted")

    def __init__(self, submitted: JobSubmitted) -> None:
        self.submitted = submitted
        self.done_ms = 0
        self.granted = 0
        self.since_ms: int | None = None
        self.has_run = False
        self.ended: type[Event] | None = None
        self.given_up_ms: int | None = None

    def start(self, at_ms: int) -> None:
        restart_ms = self.submitted.spec.checkpoint.restart_ms if self.has_run else 0
        self.since_ms, self.has_run = at_ms + restart_ms, True

    def work(self, until_ms: int) -> None:
        """Everything up to this moment counts."""
        if self.since_ms is None:
            return
        wanted = sum(group.count for group in self.submitted.spec.groups)
        self.done_ms += max(0, until_ms - self.since_ms) * self.granted // max(1, wanted)
        self.since_ms = until_ms

    def run_ms(self, now_ms: int) -> int:
        """What it runs for in all; a job given up stays until its user gives it up again."""
        spec = self.submitted.spec
        if self.given_up_ms is not None and self.ended is not AttemptSucceeded:
            return max(1, self.given_up_ms - self.submitted.at_ms + 1)
        if self.ended is None:
            self.work(now_ms)
            return max(1, self.done_ms, spec.expected_run_ms or spec.max_run_ms or DAY_MS)
        return max(1, self.done_ms)


class _Reader:
    """Goes through a history once."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.stories: dict[str, _Story] = {}
        self.starts_ms: list[int] = []
        self.stops_ms: list[int] = []
        self._since: dict[str, int] = {}
        self.now_ms = 0

    def read(self, event: Event) -> None:
        self.now_ms = max(self.now_ms, event.at_ms)
        if isinstance(event, FROM_OUTSIDE):
            self.events.append(event)
        if isinstance(event, JobSubmitted):
            self.stories[event.job_id] = _Story(event)
            return
        story = self.stories.get(getattr(event, "job_id", ""))
        if story is not None:
            self._follow(story, event)

    def _follow(self, story: _Story, event: Event) -> None:
        match event:
            case AttemptAssigned(job_id=job_id, placement=placement):
                story.granted = sum(task.count for task in placement.all_tasks)
                self._since[job_id] = event.at_ms
            case AttemptStarted(job_id=job_id):
                self.starts_ms.append(event.at_ms - self._since.pop(job_id, event.at_ms))
                story.start(event.at_ms)
            case CheckpointSaved():
                story.work(event.at_ms)
            case AttemptStopping(job_id=job_id):
                self._since[job_id] = event.at_ms
            case AttemptPreempted(job_id=job_id):
                if job_id in self._since:
                    self.stops_ms.append(event.at_ms - self._since.pop(job_id))
                story.since_ms = None
            case AttemptSucceeded() | AttemptFailed():
                story.work(event.at_ms)
                story.since_ms, story.ended = None, type(event)
            case JobCancelled():
                story.given_up_ms = event.at_ms
            case _:
                pass


def read_history(events: Iterable[Event]) -> History:
    """One pass over the events of a log."""
    reader = _Reader()
    for event in events:
        reader.read(event)
    stories = reader.stories
    open_ends = sum(one.ended is None and one.given_up_ms is None for one in stories.values())
    failed = sum(one.ended is AttemptFailed for one in stories.values())
    usual = Delays()
    notes = []
    if open_ends:
        notes.append(f"{open_ends:,} jobs had not ended in the log: they run as long as expected")
    if failed:
        notes.append(f"{failed:,} jobs had failed: they run as long as they did and end well")
    return History(
        events=tuple(reader.events),
        run_ms={job_id: one.run_ms(reader.now_ms) for job_id, one in stories.items()},
        delays=Delays(
            start_ms=round(median(reader.starts_ms)) if reader.starts_ms else usual.start_ms,
            stop_ms=round(median(reader.stops_ms)) if reader.stops_ms else usual.stop_ms,
        ),
        jobs=len(stories),
        notes=tuple(notes),
    )
