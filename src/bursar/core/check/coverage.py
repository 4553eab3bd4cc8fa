"""Every waiting job is covered by exactly one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bursar.core.check.decisions_by_type import DecisionsByType
from bursar.core.check.fault import Fault
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.model.decision import Hold
from bursar.model.jobs.job import JobKind, JobState

WAITING = frozenset({JobState.QUEUED, JobState.BLOCKED})


def answer_faults(state: FleetState, listing: DecisionsByType) -> list[Fault]:
    """Compares the answers with the waiting jobs, by job kind rather than job by job."""
    check = _Answers(state, listing)
    return [*check.holds(), *check.single_jobs(), *check.kinds()]


class _Answers:
    def __init__(self, state: FleetState, listing: DecisionsByType) -> None:
        self.state = state
        self.listing = listing
        self.released = set(listing.released)
        self.answers: dict[str, list[str]] = {}
        for start in listing.starts:
            self.answers.setdefault(start.job_id, []).append("StartJob")
        for claim in listing.claims:
            self.answers.setdefault(claim.job_id, []).append("ClaimPlacement")
        for hold in listing.holds:
            for job_id in hold.jobs:
                self.answers.setdefault(job_id, []).append("Hold")

    def holds(self) -> Iterator[Fault]:
        """Faults in single holds."""
        for hold in self.listing.holds:
            if not hold.reasons:
                text = f"{hold.head} and other jobs of its kind are held without a reason"
                yield Fault("hold-without-reason", hold.head, text)
            for job_id in hold.jobs or (hold.head,):
                yield from self._held(job_id, hold.kind)
            if hold.jobs and hold.head not in hold.jobs:
                yield _not_the_head(hold.head)
            if hold.jobs and hold.waiting != len(hold.jobs):
                yield _wrong_count(hold.kind, hold.waiting, len(hold.jobs))

    def _held(self, job_id: str, kind: JobKind) -> Iterator[Fault]:
        record = self.state.jobs.get(job_id)
        if record is None or record.state not in WAITING:
            status = "has ended or never existed" if record is None else f"is {record.state}"
            text = f"{job_id} is held, but is not waiting: it {status}"
            yield Fault("held-but-not-waiting", job_id, text)
        elif not _has_kind(record, kind):
            text = f"{job_id} is not of the kind it is held with ({kind.queue}, {kind.priority})"
            yield Fault("held-with-wrong-kind", job_id, text)

    def single_jobs(self) -> Iterator[Fault]:
        """Faults of jobs with two answers, or without the individual answer that they need."""
        for job_id, answers in sorted(self.answers.items()):
            # The hold next to a claim names the victims that must end first.
            if len(answers) > 1 and sorted(answers) != ["ClaimPlacement", "Hold"]:
                yield _answered_twice(job_id, answers)
        for job_id in sorted(self.state.blocked):
            if job_id not in self.answers:
                text = f"{job_id} ({JobState.BLOCKED}) has no answer"
                yield Fault("not-answered", job_id, text)
        for job_id in sorted(self.state.claims):
            if job_id not in self.answers and job_id not in self.released:
                text = f"{job_id} ({JobState.QUEUED}), with a claim, has no answer"
                yield Fault("not-answered", job_id, text)

    def kinds(self) -> Iterator[Fault]:
        """The rest of each backlog must be held once, with the right number of jobs."""
        changes = self._changes()
        held: dict[int, list[Hold]] = {}
        for hold in self.listing.holds:
            record = self.state.jobs.get(hold.head)
            if hold.jobs or record is None or record.state not in WAITING:
                continue
            held.setdefault(id(record.backlog), []).append(hold)
            if not self._needs_kind_hold(record):
                yield _not_the_head(hold.head)
        faults: list[Fault] = []
        for backlog in self.state.backlogs.by_key.values():
            unanswered = backlog.count + changes[id(backlog)]
            holds = held.get(id(backlog), [])
            if unanswered or holds:
                faults += _backlog_faults(backlog, unanswered, holds)
        yield from sorted(faults, key=str)

    def _changes(self) -> Counter[int]:
        """Change in the number of jobs without an individual answer, by backlog."""
        changes: Counter[int] = Counter()
        for job_id in self.answers:
            record = self.state.jobs.get(job_id)
            if record is not None and record.state is JobState.QUEUED and record.claim is None:
                changes[id(record.backlog)] -= 1
        for job_id in self.released:
            record = self.state.jobs.get(job_id)
            if record is not None and record.claim is not None and job_id not in self.answers:
                changes[id(record.backlog)] += 1
        return changes

    def _needs_kind_hold(self, record: JobRecord) -> bool:
        """Whether only the hold of its kind can cover this job."""
        is_queued = record.claim is None or record.id in self.released
        return record.state is JobState.QUEUED and is_queued and record.id not in self.answers


def _backlog_faults(backlog: Backlog, unanswered: int, holds: list[Hold]) -> Iterator[Fault]:
    if len(holds) > 1:
        yield _answered_twice(holds[0].head, ["Hold"] * len(holds))
    stated = holds[0].waiting if holds else 0
    if stated != unanswered:
        yield _wrong_count(backlog.kind, stated, unanswered)


def _answered_twice(job_id: str, answers: list[str]) -> Fault:
    text = f"{job_id} has {len(answers)} answers: {', '.join(answers)}"
    return Fault("answered-twice", job_id, text)


def _not_the_head(job_id: str) -> Fault:
    text = f"{job_id} is the head of a hold that does not cover it"
    return Fault("head-not-covered", job_id, text)


def _wrong_count(kind: JobKind, held: int, waiting: int) -> Fault:
    text = (
        f"jobs of one kind in {kind.queue} at priority {kind.priority}: "
        f"{waiting} waiting, {held} held"
    )
    return Fault("wrong-hold-count", kind.queue, text)


def _has_kind(record: JobRecord, kind: JobKind) -> bool:
    """Whether a job's spec matches a kind, whatever backlog the job is in."""
    spec, shape = record.spec, kind.shape
    return (
        kind.queue == spec.queue
        and kind.priority == record.priority
        and shape.preemptible == spec.preemptible
        and shape.groups == spec.groups
        and shape.constraints == spec.constraints
        and shape.checkpoint == spec.checkpoint
    )
