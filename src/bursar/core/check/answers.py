"""Every waiting job is covered by exactly one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from bursar.core.check.listing import Listing
from bursar.core.line import JobRecord, KindLine
from bursar.core.state import FleetState
from bursar.model.decision import Hold
from bursar.model.job import JobState
from bursar.model.kind import Kind

WAITING = frozenset({JobState.QUEUED, JobState.BLOCKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTwice:
    job_id: str
    answers: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.job_id} has {len(self.answers)} answers: {', '.join(self.answers)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAnswered:
    """A job that only an answer of its own can cover has none."""

    job_id: str
    state: JobState
    claimed: bool

    def __str__(self) -> str:
        place = ", with a place kept for it," if self.claimed else ""
        return f"{self.job_id} ({self.state}){place} has no answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongCount:
    """A hold speaks for another number of jobs than wait of its kind."""

    queue: str
    priority: int
    held: int
    waiting: int

    def __str__(self) -> str:
        return (
            f"{self.waiting} jobs of one kind wait in {self.queue} at priority {self.priority}; "
            f"{self.held} are held"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNotWaiting:
    job_id: str
    state: JobState | None

    def __str__(self) -> str:
        what = "is over or never was" if self.state is None else f"is {self.state}"
        return f"{self.job_id} is held, but does not wait: it {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongKind:
    job_id: str
    queue: str
    priority: int

    def __str__(self) -> str:
        return f"{self.job_id} is not of the kind it is held with ({self.queue}, {self.priority})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTheHead:
    """The head of a hold is not one of the jobs that the hold covers."""

    job_id: str

    def __str__(self) -> str:
        return f"{self.job_id} is the head of a hold that does not cover it"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReason:
    job_id: str

    def __str__(self) -> str:
        return f"{self.job_id} and its like are held without a reason"


AnswerFault = (
    AnsweredTwice | NotAnswered | WrongCount | HeldNotWaiting | WrongKind | NotTheHead | NoReason
)


def answer_faults(state: FleetState, listing: Listing) -> list[AnswerFault]:
    """Compare the answers with who waits, kind by kind and not job by job."""
    check = _Answers(state, listing)
    return [*check.holds(), *check.single_jobs(), *check.kinds()]


class _Answers:
    def __init__(self, state: FleetState, listing: Listing) -> None:
        self.state = state
        self.listing = listing
        self.released = set(listing.released)
        self.answers: dict[str, list[str]] = {}
        for start in listing.starts:
            self.answers.setdefault(start.job_id, []).append("StartJob")
        for claim in listing.claims:
            self.answers.setdefault(claim.job_id, []).append("ClaimRoom")
        for hold in listing.holds:
            for job_id in hold.jobs:
                self.answers.setdefault(job_id, []).append("Hold")

    def holds(self) -> Iterator[AnswerFault]:
        """Each hold by itself."""
        for hold in self.listing.holds:
            if not hold.reasons:
                yield NoReason(job_id=hold.head)
            for job_id in hold.jobs or (hold.head,):
                yield from self._held(job_id, hold.kind)
            if hold.jobs and hold.head not in hold.jobs:
                yield NotTheHead(job_id=hold.head)
            if hold.jobs and hold.waiting != len(hold.jobs):
                yield _wrong_count(hold.kind, hold.waiting, len(hold.jobs))

    def _held(self, job_id: str, kind: Kind) -> Iterator[AnswerFault]:
        record = self.state.jobs.get(job_id)
        if record is None or record.state not in WAITING:
            state = None if record is None else record.state
            yield HeldNotWaiting(job_id=job_id, state=state)
        elif not _is_of(record, kind):
            yield WrongKind(job_id=job_id, queue=kind.queue, priority=kind.priority)

    def single_jobs(self) -> Iterator[AnswerFault]:
        """Jobs with an answer of their own: not two; and those that need one have one."""
        for job_id, answers in sorted(self.answers.items()):
            # The hold beside a claim tells its owner who has to leave first.
            if len(answers) > 1 and sorted(answers) != ["ClaimRoom", "Hold"]:
                yield AnsweredTwice(job_id=job_id, answers=tuple(answers))
        for job_id in sorted(self.state.blocked):
            if job_id not in self.answers:
                yield NotAnswered(job_id=job_id, state=JobState.BLOCKED, claimed=False)
        for job_id in sorted(self.state.claims):
            if job_id not in self.answers and job_id not in self.released:
                yield NotAnswered(job_id=job_id, state=JobState.QUEUED, claimed=True)

    def kinds(self) -> Iterator[AnswerFault]:
        """What is left of each line must be held, once, and in the right number."""
        changes = self._changes()
        held: dict[int, list[Hold]] = {}
        for hold in self.listing.holds:
            record = self.state.jobs.get(hold.head)
            if hold.jobs or record is None or record.state not in WAITING:
                continue
            held.setdefault(id(record.line), []).append(hold)
            if not self._is_left(record):
                yield NotTheHead(job_id=hold.head)
        found: list[AnswerFault] = []
        for line in self.state.lines.values():
            left = line.count + changes[id(line)]
            holds = held.get(id(line), [])
            if left or holds:
                found += _line_faults(line, left, holds)
        yield from sorted(found, key=str)

    def _changes(self) -> Counter[int]:
        """How many more, or fewer, of each line have no answer of their own."""
        changes: Counter[int] = Counter()
        for job_id in self.answers:
            record = self.state.jobs.get(job_id)
            if record is not None and record.state is JobState.QUEUED and record.claim is None:
                changes[id(record.line)] -= 1
        for job_id in self.released:
            record = self.state.jobs.get(job_id)
            if record is not None and record.claim is not None and job_id not in self.answers:
                changes[id(record.line)] += 1
        return changes

    def _is_left(self, record: JobRecord) -> bool:
        """Whether only its kind's hold can cover this job."""
        in_line = record.claim is None or record.id in self.released
        return record.state is JobState.QUEUED and in_line and record.id not in self.answers


def _line_faults(line: KindLine, left: int, holds: list[Hold]) -> Iterator[AnswerFault]:
    if len(holds) > 1:
        yield AnsweredTwice(job_id=holds[0].head, answers=("Hold",) * len(holds))
    stated = holds[0].waiting if holds else 0
    if stated != left:
        yield _wrong_count(line.kind, stated, left)


def _wrong_count(kind: Kind, held: int, waiting: int) -> WrongCount:
    return WrongCount(queue=kind.queue, priority=kind.priority, held=held, waiting=waiting)


def _is_of(record: JobRecord, kind: Kind) -> bool:
    """Whether a job is of a kind, by its own words and not by the line it stands in."""
    spec, shape = record.spec, kind.shape
    return (
        kind.queue == spec.queue
        and kind.priority == record.priority
        and shape.preemptible == spec.preemptible
        and shape.groups == spec.groups
        and shape.constraints == spec.constraints
        and shape.checkpoint == spec.checkpoint
    )
