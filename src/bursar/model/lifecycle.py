"""State transitions of a job; a pair that is not in the table is a bug of ours."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from bursar.model.errors import BrokenInvariant
from bursar.model.event import (
    AttemptAssigned,
    AttemptExpired,
    AttemptFailed,
    AttemptPreempted,
    AttemptResumed,
    AttemptStarted,
    AttemptStopping,
    AttemptSucceeded,
    CheckpointSaved,
    JobCancelled,
    NodeLost,
)
from bursar.model.jobs.job import JobState

NEXT: Final[dict[tuple[JobState, type], JobState]] = {
    (JobState.BLOCKED, JobCancelled): JobState.CANCELLED,
    (JobState.QUEUED, JobCancelled): JobState.CANCELLED,
    (JobState.QUEUED, AttemptAssigned): JobState.STARTING,
    (JobState.STARTING, AttemptStarted): JobState.RUNNING,
    (JobState.STARTING, JobCancelled): JobState.CANCELLING,
    (JobState.STARTING, AttemptStopping): JobState.STOPPING,
    (JobState.STARTING, AttemptPreempted): JobState.QUEUED,
    (JobState.STARTING, AttemptSucceeded): JobState.SUCCEEDED,
    (JobState.STARTING, AttemptFailed): JobState.FAILED,
    (JobState.STARTING, NodeLost): JobState.QUEUED,
    (JobState.STARTING, CheckpointSaved): JobState.STARTING,
    (JobState.STARTING, AttemptResumed): JobState.STARTING,
    (JobState.RUNNING, AttemptStarted): JobState.RUNNING,
    (JobState.RUNNING, CheckpointSaved): JobState.RUNNING,
    (JobState.RUNNING, AttemptResumed): JobState.RUNNING,
    (JobState.RUNNING, JobCancelled): JobState.CANCELLING,
    (JobState.RUNNING, AttemptStopping): JobState.STOPPING,
    (JobState.RUNNING, AttemptExpired): JobState.EXPIRING,
    (JobState.RUNNING, AttemptPreempted): JobState.QUEUED,
    (JobState.RUNNING, AttemptSucceeded): JobState.SUCCEEDED,
    (JobState.RUNNING, AttemptFailed): JobState.FAILED,
    (JobState.RUNNING, NodeLost): JobState.QUEUED,
    (JobState.STOPPING, AttemptStarted): JobState.STOPPING,
    (JobState.STOPPING, CheckpointSaved): JobState.STOPPING,
    (JobState.STOPPING, AttemptResumed): JobState.STOPPING,
    (JobState.STOPPING, JobCancelled): JobState.CANCELLING,
    (JobState.STOPPING, AttemptPreempted): JobState.QUEUED,
    (JobState.STOPPING, AttemptSucceeded): JobState.SUCCEEDED,
    (JobState.STOPPING, AttemptFailed): JobState.FAILED,
    (JobState.STOPPING, NodeLost): JobState.QUEUED,
    (JobState.CANCELLING, AttemptStarted): JobState.CANCELLING,
    (JobState.CANCELLING, CheckpointSaved): JobState.CANCELLING,
    (JobState.CANCELLING, AttemptResumed): JobState.CANCELLING,
    (JobState.CANCELLING, JobCancelled): JobState.CANCELLING,
    (JobState.CANCELLING, AttemptStopping): JobState.CANCELLING,
    (JobState.CANCELLING, AttemptPreempted): JobState.CANCELLED,
    (JobState.CANCELLING, AttemptSucceeded): JobState.CANCELLED,
    (JobState.CANCELLING, AttemptFailed): JobState.CANCELLED,
    (JobState.CANCELLING, NodeLost): JobState.CANCELLED,
    (JobState.EXPIRING, AttemptStarted): JobState.EXPIRING,
    (JobState.EXPIRING, CheckpointSaved): JobState.EXPIRING,
    (JobState.EXPIRING, AttemptResumed): JobState.EXPIRING,
    (JobState.EXPIRING, JobCancelled): JobState.CANCELLING,
    (JobState.EXPIRING, AttemptPreempted): JobState.FAILED,
    (JobState.EXPIRING, AttemptSucceeded): JobState.SUCCEEDED,
    (JobState.EXPIRING, AttemptFailed): JobState.FAILED,
    (JobState.EXPIRING, NodeLost): JobState.FAILED,
}

RETRIED: Final = {
    (JobState.STARTING, AttemptFailed),
    (JobState.RUNNING, AttemptFailed),
    (JobState.STOPPING, AttemptFailed),
}
"""Moves that lead back to the queue while the job has retries left."""

LIVE: Final = frozenset(
    {
        JobState.STARTING,
        JobState.RUNNING,
        JobState.STOPPING,
        JobState.CANCELLING,
        JobState.EXPIRING,
    }
)
"""States in which an attempt holds capacity."""

AT_WORK: Final = frozenset({JobState.STARTING, JobState.RUNNING})
"""States of a live attempt that nothing has stopped."""


class HasAttempts(Protocol):
    """A job with numbered attempts, of which at most the newest is live."""

    @property
    def attempt(self) -> int:
        """The number of the newest attempt; 0 before the first."""

    @property
    def is_live(self) -> bool:
        """Whether that attempt still holds capacity."""


FencedJob = TypeVar("FencedJob", bound=HasAttempts)


def fence(job: FencedJob | None, attempt: int | None) -> FencedJob | None:
    """The job if that attempt is its live one, else None: late messages change nothing."""
    if job is None or job.attempt != attempt or not job.is_live:
        return None
    return job


def next_state(state: JobState, event: type, retries_left: int, job: object) -> JobState:
    """The state after an event; an impossible pair raises ``BrokenInvariant`` with the job."""
    if event is AttemptFailed and retries_left > 0 and (state, event) in RETRIED:
        return JobState.QUEUED
    try:
        return NEXT[state, event]
    except KeyError:
        raise BrokenInvariant(f"{job}: {event.__name__} cannot happen while {state}") from None
