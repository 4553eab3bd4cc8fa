"""Reports of engines; the control plane turns each into at most one event and drops stale ones."""

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
    """The job saved its work up to ``at_ms``; the other fields are set if the job reported them."""

    job_id: str
    attempt: int
    at_ms: int
    step: int | None = None
    save_ms: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The job resumed from a checkpoint of an earlier attempt."""

    job_id: str
    attempt: int
    at_ms: int
    step: int | None = None
    load_ms: int | None = None


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
class NodeLostReported:
    """A node does not respond; the attempts on it are lost."""

    node: str
    at_ms: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBackReported:
    """A lost node accepts tasks again."""

    node: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignReported:
    """All that other schedulers run on a node now; empty if nothing."""

    node: str
    gpus: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0


OfAttempt = TasksStarted | TasksEnded | CheckpointReported | Resumed | Progressed | StopAcknowledged
OfNode = NodeLostReported | NodeBackReported | NoticeReported | ForeignReported
EngineReport = OfAttempt | OfNode
