"""What the shells need of the outside world. Engines, stores and clocks are behind these Protocols.

``EngineFault`` is how any of them says that the outside world failed.
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
    """Where the live shell takes the time from."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. May step back when the machine's clock is set."""


# -- engines -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRef:
    """One attempt of one job: what every order and every report speaks of."""

    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Everything an engine needs to run an attempt. Carrying it out twice is the same as once."""

    ref: AttemptRef
    placement: Placement
    recipe: RunSpec
    spec: JobSpec


class Engine(Protocol):
    """Runs attempts on the nodes of one cluster, and reports. It decides nothing.

    ``start`` and ``stop`` return when the order is safely taken, not when it is done; what comes of it
    is reported. Both may be repeated at any time, also after a crash of either side: an attempt is
    never run twice, and stopping what is not there reports that it has ended.
    """

    def open(self, live: Sequence[AttemptRef]) -> None:
        """Find again what ran before. What ended meanwhile, or was never there, is reported.

        Of ``live`` attempts that the engine knows nothing about it says nothing: the control plane
        starts those that were never started again, and gives up the rest after ``unknown``.
        """

    def unknown(self, live: Sequence[AttemptRef]) -> tuple[AttemptRef, ...]:
        """Which of these the engine has no trace of."""

    def start(self, order: StartOrder) -> None:
        """Take an attempt, or raise ``EngineFault`` to be asked again."""

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        """Ask the processes to end, and end them when the grace is over."""

    def partition(self, node: str, gpu: int, layout: Layout) -> None:
        """Cut a GPU without holders."""

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        """What happened since the last call; waits so long for the first. Called from one thread.

        Reports may be repeated after a crash. They are forgotten by the engine only after
        ``settled`` says that they are committed.
        """

    def settled(self, refs: Iterable[AttemptRef]) -> None:
        """The ends of these attempts are committed: what was kept to report them may go."""

    def logs(self, ref: AttemptRef) -> Sequence[LogFile]:
        """The output of an attempt, one file for each task and stream; empty when there is none."""

    def close(self) -> None:
        """Let go. What runs goes on running."""


@runtime_checkable
class Interruptible(Protocol):
    """An engine that can take nodes away as a provider of spot capacity does, to see what happens."""

    def interrupt(self, node: str, notice_ms: int, absence_ms: int) -> None:
        """Announce it, if there is to be a notice, lose the node at its end, and have it back later."""


class InterruptionSource(Protocol):
    """Where a provider says that machines will be taken away."""

    def poll(self) -> Sequence[NoticeReported]:
        """What it says now, also what it said before; ``EngineFault`` when it cannot be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One stream of one task. Rotated files are parts of one stream: ``paths`` are oldest first."""

    task: int
    node: str
    stream: str
    paths: tuple[str, ...]


# -- telling people ----------------------------------------------------------------------------------


class Notifier(Protocol):
    """Says a message to people somewhere."""

    def send(self, message: Notification) -> None:
        """Say it, or raise ``EngineFault``; one that waits 0 s says that trying again is of no use."""


# -- the store ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event with its place in the log. Sequence numbers begin at 1 and have no gaps."""

    sequence: int
    event: LoggedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrigin:
    """Who submitted a job, and its documents. ``labels`` are the user's own."""

    owner: str
    recipe: RunSpec
    labels: Mapping[str, str] = field(default_factory=dict)
    document: str = ""
    """The job as it was written, without its secrets, to be shown and submitted again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """The answer that an idempotency key got: the same key with the same request gets it again."""

    tenant: str
    key: str
    request_sha256: str
    answer: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Somebody did, or tried, something that matters."""

    at_ms: int
    user: str
    token_id: str
    action: str
    subject: str
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one transaction writes: all of it, or nothing."""

    events: tuple[LoggedEvent, ...] = ()
    origins: Mapping[str, JobOrigin] = field(default_factory=dict)
    """By job id, for the ``JobSubmitted`` among the events. Members of an array share one object."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    tokens: tuple[Token, ...] = ()
    """Written as they are now: new ones, and known ones that changed."""
    audit: tuple[AuditEntry, ...] = ()
    progressed: tuple[Progressed, ...] = ()
    """How far jobs have come, of each the newest. No events: nothing is decided or billed by them."""


MOST_LEFT_MS = 10 * 365 * DAY_MS
"""What would take longer is not told: the first steps were slow, or the numbers are no steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job said last that it has come, and where the same attempt first said so."""

    attempt: int
    step: int
    total: int | None
    at_ms: int
    since_step: int
    since_ms: int

    @property
    def permille(self) -> int | None:
        """What part of the work is done; None while nobody says how much there is."""
        if not self.total:
            return None
        return min(1_000, self.step * 1_000 // self.total)

    @property
    def expected_end_ms(self) -> int | None:
        """When it is done if it goes on as it has since this attempt first told."""
        steps = self.step - self.since_step
        if self.total is None or steps <= 0:
            return None
        left_ms = max(0, self.total - self.step) * (self.at_ms - self.since_ms) // steps
        return self.at_ms + left_ms if left_ms < MOST_LEFT_MS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as the tables show it. All but its progress follows from the events and its origin."""

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
    """Where the live attempt runs; None when there is none."""
    spec: JobSpec
    labels: Mapping[str, str]
    saved_at_ms: int | None = None
    """Of the live attempt, as are the next three: what it saved, and from what it went on."""
    saved_step: int | None = None
    resumed_at_ms: int | None = None
    resumed_step: int | None = None
    progress: JobProgress | None = None
    """Of the newest attempt that told any."""

    @property
    def is_recovered(self) -> bool | None:
        """Whether a job that was started again is really back; None while there is nothing to recover.

        That its processes run says little: it is back when it has told from where it goes on, or has
        saved something since its restart.
        """
        if self.attempt < 2 or self.placement is None:
            return None
        return self.saved_at_ms is not None or self.resumed_step is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One try of a job. ``outcome`` is the name of the event that ended it, empty while it lives."""

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
    """A filter of jobs. Empty sets mean all. ``queues`` limits it to what the caller may see."""

    queues: frozenset[str] | None = None
    states: frozenset[JobState] = frozenset()
    owner: str | None = None
    name: str | None = None
    label: tuple[str, str] | None = None
    after: tuple[int, str] | None = None
    """Continue a listing (newest first) after this submission time and id."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a start needs instead of the whole log up to ``sequence``: see ``core/redeclare.py``."""

    sequence: int
    body: str


class LeadershipLost(Exception):
    """Another process has taken the lead since: nothing may be written any more.

    What was being written when the lead was lost may be in the log: read it again.
    """


class LeaderLease(Protocol):
    """The right to write. It ends with the process that holds it, whatever ends it."""

    epoch: int
    """Grows with every change of leader; every transaction checks that it is still the leader's."""

    def release(self) -> None:
        """Give it up, so that another need not wait."""


class StoreReader(Protocol):
    """Reads, from any thread of any process. Each call sees one consistent moment."""

    def last_sequence(self) -> int:
        """The newest event's number; 0 in an empty log."""

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Recorded]:
        """The log in order, from behind ``after``."""

    def events_of(self, job_id: str) -> Sequence[Recorded]:
        """One job's events, in order."""

    def snapshot(self) -> Snapshot | None:
        """The newest one."""

    def job(self, job_id: str) -> JobRow | None: ...

    def jobs(self, wanted: JobFilter) -> Sequence[JobRow]:
        """Newest first."""

    def members(self, array_id: str) -> Sequence[tuple[str, JobState]]:
        """The jobs of an array and where each is, in order; none when there is no such array."""

    def count_jobs(self, queues: frozenset[str] | None) -> Mapping[JobState, int]: ...

    def attempts(self, job_id: str) -> Sequence[AttemptRow]: ...

    def origin(self, job_id: str) -> JobOrigin | None:
        """With its secrets while the job lives, without them afterwards."""

    def origins(self, job_ids: Collection[str]) -> Mapping[str, JobOrigin]:
        """The same of several jobs; those that are not known are left out."""

    def tags(self, job_ids: Collection[str]) -> Mapping[str, JobLabel]:
        """Whose these jobs are and what they are called; those that are not known are left out."""

    def acknowledgement(self, tenant: str, key: str) -> Acknowledgement | None: ...

    def tokens(self) -> Sequence[Token]: ...

    def audit(self, limit: int, before: int | None = None) -> Sequence[tuple[int, AuditEntry]]:
        """Newest first, each with its number."""

    def leader(self) -> tuple[int, str] | None:
        """The epoch and the address that the present or last leader gave."""


class Store(StoreReader, Protocol):
    """One durable log with its tables. Only the leader writes, from one thread."""

    def try_lead(self, address: str) -> LeaderLease | None:
        """Take the lead if nobody has it; never waits."""

    def append(self, batch: Batch, lead: LeaderLease) -> int:
        """Write a batch in one durable transaction and give the last sequence number.

        Raises ``LeadershipLost`` when the lead is another's, and ``EngineFault`` when the database cannot be
        written now (full disk, lost connection). Then the same batch object may be given again, and is
        written once; a caller that gives it up calls ``settle`` and reads the log before the next write.
        """

    def settle(self, lead: LeaderLease) -> None:
        """Find out whether a batch in doubt was written; ``EngineFault`` while nobody can know."""

    def keep_snapshot(self, snapshot: Snapshot, lead: LeaderLease) -> None:
        """Replace the older one."""

    def close(self) -> None: ...


# -- prices ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRequest:
    """Machines of one region, spelt as their cloud spells them."""

    region: str
    instance_types: tuple[str, ...]


class PriceFeed(Protocol):
    """What one cloud asks for machines now. Asked seldom: prices land as events, and events stay."""

    def read(self, wanted: Sequence[PriceRequest]) -> PriceReading:
        """Every price of these machines that the cloud gives; the rest is told as bad.

        Raises ``EngineFault`` when the cloud cannot be asked: then nothing is known, and old prices stand.
        """


class Fetch(Protocol):
    """GET of an address. Time limits, retries and credentials are its business, not its caller's."""

    def __call__(self, url: str) -> bytes:
        """The body, or ``EngineFault``."""
