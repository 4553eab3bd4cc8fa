"""What engines report. The control plane turns each into at most one event; a stale one changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.event import NoticeKind
from bursar.model.jobs.attempt import Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksStarted:
    """All processes of an attempt run."""

    job_id: str
    attempt: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksEnded:
    """No process of an attempt runs any more, and none will."""

    job_id: str
    attempt: int
    at_ms: int
    exit: Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReported:
    """The job says that its work up to ``at_ms`` is safe; the rest only when it said so."""

    job_id: str
    attempt: int
    at_ms: int
    step: int | None = None
    save_ms: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The job says that it goes on from what an earlier attempt saved."""

    job_id: str
    attempt: int
    at_ms: int
    step: int | None = None
    load_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """The job says how far it has come. Nothing of it need be saved."""

    job_id: str
    attempt: int
    at_ms: int
    step: int
    total: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAcknowledged:
    """The job says that it was asked to stop, and has until ``ends_at_ms`` if it knows that.

    ``source`` is who asked, as far as the job can tell: an engine that stops jobs for reasons of its own
    looks like us from inside.
    """

    job_id: str
    attempt: int
    at_ms: int
    source: str
    ends_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeReported:
    """A provider says that a node will be taken away, or may be. It may say so again and again."""

    node: str
    source: str
    kind: NoticeKind
    ends_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLostReported:
    """A node answers no more; what ran there is lost."""

    node: str
    at_ms: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBackReported:
    """A node that was gone takes tasks again."""

    node: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignReported:
    """What others run on a node now, all of it; nothing when they have left."""

    node: str
    gpus: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0


OfAttempt = TasksStarted | TasksEnded | CheckpointReported | Resumed | Progressed | StopAcknowledged
OfNode = NodeLostReported | NodeBackReported | NoticeReported | ForeignReported
EngineReport = OfAttempt | OfNode
