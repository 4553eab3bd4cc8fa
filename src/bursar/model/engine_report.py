"""What engines report. Events where they are the same facts; the control plane sets their times.

The control plane turns a report into at most one event and drops stale ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.event import (
    AttemptResumed,
    AttemptStarted,
    CheckpointSaved,
    NodeLost,
    NodeRestored,
    NoticeKind,
)
from bursar.model.jobs.attempt import Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksEnded:
    """No process of an attempt runs any more, and none will."""

    job_id: str
    attempt: int
    at_ms: int
    exit: Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """The job reports its progress, saved or not."""

    job_id: str
    attempt: int
    at_ms: int
    step: int
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAcknowledged:
    """The job acknowledges a stop request, due by ``ends_at_ms`` if it knows that.

    ``source`` is the origin of the request as far as the job can tell: it cannot distinguish our stop from
    one by the engine itself.
    """

    job_id: str
    attempt: int
    at_ms: int
    source: str
    ends_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeReported:
    """A provider's notice that a node will or may be reclaimed; it may be repeated."""

    node: str
    source: str
    kind: NoticeKind
    ends_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignReported:
    """All that other schedulers run on a node now; empty if nothing."""

    node: str
    gpus: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0


OfAttempt = (
    AttemptStarted | TasksEnded | CheckpointSaved | AttemptResumed | Progressed | StopAcknowledged
)
OfNode = NodeLost | NodeRestored | NoticeReported | ForeignReported
EngineReport = OfAttempt | OfNode
