"""Protocols for the outside world: engines, stores, clocks, notifiers and price feeds.

Their implementations raise ``EngineFault`` when the outside world fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from bursar.model.engine_report import EngineReport, NoticeReported, Progressed
from bursar.model.event import LoggedEvent
from bursar.model.fleet.gpu import Layout
from bursar.model.fleet.price import PriceReading
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.jobs.run_spec import RunSpec
from bursar.model.notification import Notification
from bursar.model.tenants.identity import Token
from bursar.model.units import DAY_MS

# -- time --------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Source of the current time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. May step back when the machine's clock is set."""


# -- engines -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRef:
    """Identifies one attempt of one job in orders and reports."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Everything an engine needs to run an attempt. Idempotent."""

    ref: AttemptRef
    placement: Placement
    recipe: RunSpec
    spec: JobSpec


class Engine(Protocol):
    """Runs attempts on the nodes of one cluster, and reports. It decides nothing.

    ``start`` and ``stop`` return when the order is accepted durably, not when it is done; the result is
    reported later. Both are idempotent, also after a crash of either side: an attempt is never run
    twice, and stopping an attempt that does not exist reports that it has ended.
    """

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Reconnects to running attempts, and reports those that have ended since.

        ``live`` attempts that the engine does not know are not reported: the control plane starts those
        that were never started again, and gives up the rest after ``unknown``.
        """

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        """Returns the attempts that the engine does not know."""

    def start(self, order: StartOrder) -> None:
        """Accepts an attempt, or raises ``EngineFault`` to have it retried."""

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        """Requests the processes to end, and kills them after the grace time."""

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        """Partitions a GPU that no job uses."""

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        """Reports since the last call; waits up to the timeout for the first. Called from one thread.

        Reports may be repeated after a crash. The engine discards them only after ``settled`` confirms
        that they are committed.
        """

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        """Confirms that the ends of these attempts are committed and need not be reported again."""

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        """Log files of an attempt, one for each task and stream."""

    def close(self) -> None:
        """Disconnects. Running attempts continue."""


@runtime_checkable
class Interruptible(Protocol):
    """An engine that can simulate spot interruptions."""

    def interrupt(self, node: str, notice_ms: int, absence_ms: int) -> None:
        """Sends a notice (if any), loses the node when it expires, and returns the node later."""


class InterruptionSource(Protocol):
    """Source of a provider's interruption notices."""

    def poll(self) -> Sequence[NoticeReported]:
        """Current notices, old ones included; ``EngineFault`` if the provider is unreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One log stream of one task. ``paths`` are its rotated files, oldest first."""

    task: int
    node: str
    stream: str
    paths: tuple[str, ...]


# -- notifications -----------------------------------------------------------------------------------


class Notifier(Protocol):
    """Sends messages to users over one channel."""

    def send(self, message: Notification) -> None:
        """Sends a message, or raises ``EngineFault``; a retry time of 0 s means do not retry."""


# -- the store ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event with its sequence number in the log. Numbers begin at 1 and have no gaps."""

    sequence: int
    event: LoggedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrigin:
    """Owner, run spec and document of a submitted job. ``labels`` are the user's own."""

    owner: str
    recipe: RunSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    document: str = ""
    """The job file as submitted, without its secrets, to be shown and submitted again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """Stored answer of an idempotency key: a repeated request with the key gets it again."""

    tenant: str
    key: str
    request_sha256: str
    answer: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An audited action of a user, allowed or denied."""

    at_ms: int
    user: str
    token_id: str
    action: str
    subject: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything that one transaction writes, atomically."""

    events: tuple[LoggedEvent, ...] = ()
    origins: Mapping[str, JobOrigin] = field(default_factory=dict)
    """By job id, for the ``JobSubmitted`` among the events. Members of an array share one object."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    tokens: tuple[Token, ...] = ()
    """New and changed tokens."""
    audit: tuple[AuditEntry, ...] = ()
    progressed: tuple[Progressed, ...] = ()
    """Newest progress of each job. Not events: no decision or bill depends on them."""


MAX_REMAINING_MS = 10 * 365 * DAY_MS
"""Longer estimates are not shown: the first steps were slow, or the numbers are not steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """Last reported progress of a job, and the first report of the same attempt."""

    attempt: int
    step: int
    total: int | None
    at_ms: int
    since_step: int
    since_ms: int

    @property
    def permille(self) -> int | None:
        """Fraction of the work that is done, in thousandths; None if the total is unknown."""
        if not self.total:
            return None
        return min(1_000, self.step * 1_000 // self.total)

    @property
    def expected_end_ms(self) -> int | None:
        """Expected end at the speed since the first report of this attempt."""
        steps = self.step - self.since_step
        if self.total is None or steps <= 0:
            return None
        remaining_ms = max(0, self.total - self.step) * (self.at_ms - self.since_ms) // steps
        return self.at_ms + remaining_ms if remaining_ms < MAX_REMAINING_MS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row of the job table, derived from events and origin, except for its progress."""

    id: str
    name: str
    queue: str
    owner: str
    state: JobState
    priority: int
    attempt: int
    failures: int
    preemptions: int
    submitted_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    exit_code: int | None
    exit_signal: int | None
    exit_detail: str
    placement: Placement | None
    """Placement of the live attempt, if there is one."""
    spec: JobSpec
    labels: Mapping[str, str]
    saved_at_ms: int | None = None
    """Last checkpoint of the live attempt; the next three belong to that attempt too."""
    saved_step: int | None = None
    resumed_at_ms: int | None = None
    resumed_step: int | None = None
    progress: JobProgress | None = None
    """Progress of the newest attempt that reported any."""

    @property
    def is_recovered(self) -> bool | None:
        """Whether a restarted job has recovered; None if it was not restarted or is not running.

        Running processes are not enough: it has recovered when it has reported the step it resumed
        from, or has saved a checkpoint since its restart.
        """
        if self.attempt < 2 or self.placement is None:
            return None
        return self.saved_at_ms is not None or self.resumed_step is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt of a job. ``outcome`` is the name of the event that ended it, empty until then."""

    job_id: str
    attempt: int
    placement: Placement
    assigned_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    outcome: str
    exit_code: int | None
    exit_signal: int | None
    exit_detail: str
    saved_at_ms: int | None
    saved_step: int | None = None
    resumed_at_ms: int | None = None
    resumed_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """A filter of jobs. Empty sets mean all. ``queues`` are those the caller may see."""

    queues: frozenset[str] | None = None
    states: frozenset[JobState] = frozenset()
    owner: str | None = None
    name: str | None = None
    label: tuple[str, str] | None = None
    after: tuple[int, str] | None = None
    """Cursor: submission time and ID of the last job of the previous page (newest first)."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state at ``sequence``, loaded at start instead of the log up to there."""

    sequence: int
    body: str


class LeadershipLost(Exception):
    """Another process has become the leader; this one must not write any more.

    A write in progress when leadership was lost may be in the log: read it again.
    """


class LeaderLease(Protocol):
    """The right to write. It ends with the process that holds it."""

    epoch: int
    """Fencing token: grows with every change of leader, and every transaction checks it."""

    def release(self) -> None:
        """Releases the lease at once, so that another process can take it."""


class StoreReader(Protocol):
    """Reads, from any thread of any process. Each call sees one consistent snapshot."""

    def last_sequence(self) -> int:
        """Sequence number of the newest event; 0 in an empty log."""

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Recorded]:
        """Events after a sequence number, in order."""

    def events_of(self, job_id: str) -> Sequence[Recorded]:
        """Events of one job, in order."""

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""

    def job(self, job_id: str) -> JobRow | None: ...

    def jobs(self, wanted: JobFilter) -> Sequence[JobRow]:
        """Jobs that match a filter, newest first."""

    def members(self, array_id: str) -> Sequence[tuple[str, JobState]]:
        """Jobs of an array and their states, in order; empty if there is no such array."""

    def count_jobs(self, queues: frozenset[str] | None) -> Mapping[JobState, int]: ...

    def attempts(self, job_id: str) -> Sequence[AttemptRow]: ...

    def origin(self, job_id: str) -> JobOrigin | None:
        """Origin of a job, with its secrets until the job has ended."""

    def origins(self, job_ids: Collection[str]) -> Mapping[str, JobOrigin]:
        """Origins of several jobs; unknown jobs are left out."""

    def tags(self, job_ids: Collection[str]) -> Mapping[str, JobLabel]:
        """Owners and names of jobs; unknown jobs are left out."""

    def acknowledgement(self, tenant: str, key: str) -> Acknowledgement | None: ...

    def tokens(self) -> Sequence[Token]: ...

    def audit(self, limit: int, before: int | None = None) -> Sequence[tuple[int, AuditEntry]]:
        """Audit entries with their numbers, newest first."""

    def leader(self) -> tuple[int, str] | None:
        """Epoch and address of the current or last leader."""


class Store(StoreReader, Protocol):
    """A durable event log with its tables. Only the leader writes, from one thread."""

    def try_lead(self, address: str) -> LeaderLease | None:
        """Takes the leader lease if it is free; never waits."""

    def append(self, batch: Batch, lead: LeaderLease) -> int:
        """Writes a batch in one durable transaction and returns the last sequence number.

        Raises ``LeadershipLost`` if another process leads, and ``EngineFault`` if the database cannot be
        written now (full disk, lost connection). A retry with the same batch object writes it only once;
        a caller that does not retry calls ``settle`` and reads the log before the next write.
        """

    def settle(self, lead: LeaderLease) -> None:
        """Resolves whether a batch in doubt was written; ``EngineFault`` while that is unknown."""

    def keep_snapshot(self, snapshot: Snapshot, lead: LeaderLease) -> None:
        """Replaces the stored snapshot."""

    def close(self) -> None: ...


# -- prices ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRequest:
    """Instance types of one region, in the cloud's own names."""

    region: str
    instance_types: tuple[str, ...]


class PriceFeed(Protocol):
    """Current prices of one cloud. Polled rarely: every price becomes a stored event."""

    def read(self, wanted: Sequence[PriceRequest]) -> PriceReading:
        """Prices that the cloud returns for these instance types; the others are reported as bad.

        Raises ``EngineFault`` if the cloud is unreachable: the old prices then stay in force.
        """


class Fetch(Protocol):
    """HTTP GET of a URL, with its own timeouts, retries and credentials."""

    def __call__(self, url: str) -> bytes:
        """Returns the response body, or raises ``EngineFault``."""
