"""Wire types about jobs, and names of headers and media types.

The server sends these types, the client reads them, and OpenAPI is generated from them. Standard library
only, so that the client loads no server. Amounts are in micro-dollars, times in milliseconds.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict

from bursar.api.wire.cost import PlanEstimate
from bursar.api.wire.fleet import FindingRow

PREFIX: Final = "/v1"
IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
REQUEST_ID_HEADER: Final = "Bursar-Request-Id"
LAST_EVENT_HEADER: Final = "Last-Event-ID"

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROBLEM: Final = "application/problem+json"
TEXT: Final = "text/plain"
EVENT_STREAM: Final = "text/event-stream"
BUNDLE: Final = "application/gzip"

ANOTHER_TENANT: Final = "another tenant"
"""Stands for the queue of a tenant that the caller may not see."""

State = Literal[
    "blocked",
    "queued",
    "starting",
    "running",
    "stopping",
    "cancelling",
    "expiring",
    "succeeded",
    "failed",
    "cancelled",
]
Stream = Literal["stdout", "stderr"]


class ProblemView(TypedDict):
    """Any error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fix: str
    request_id: str
    leader: NotRequired[str | None]


class Alive(TypedDict):
    """The process is up; ``leader`` is whether it accepts writes."""

    status: Literal["ok"]
    leader: bool
    version: str


class SubmittedView(TypedDict):
    """A job was accepted and is durable.

    Of an array ``id`` is that of the array, which can be used like that of a job; ``ids`` are those of its
    members.
    """

    id: str
    ids: list[str]
    state: State
    replayed: bool
    findings: list[FindingRow]
    """What governance rules in dry-run would forbid; nothing was refused."""


class BulkSubmitted(TypedDict):
    """All jobs were accepted."""

    ids: list[str]
    replayed: bool
    findings: list[FindingRow]


class ArrayMember(TypedDict):
    """One job of an array."""

    id: str
    state: State


class Array(TypedDict):
    """The members of an array, and the number of members in each state."""

    size: int
    states: dict[str, int]
    members: list[ArrayMember]


class ProgressView(TypedDict):
    """The last progress that a job reported, and its attempt.

    ``expected_end_ms`` extrapolates the pace of that attempt.
    """

    attempt: int
    step: int
    total: int | None
    permille: int | None
    at_ms: int
    expected_end_ms: int | None


class JobView(TypedDict):
    """A job in a list. An array is shown as a job too, with its members in ``array``."""

    id: str
    name: str
    queue: str
    owner: str
    state: State
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
    nodes: list[str]
    gpus: int
    pool: str | None
    micro_usd_per_hour: int | None
    saved_step: int | None
    resumed_step: int | None
    recovered: bool | None
    """Of a restarted job: whether it has resumed from a known step, or saved since."""
    progress: ProgressView | None
    labels: dict[str, str]
    array: NotRequired[Array]


class Attempt(TypedDict):
    """One attempt of a job. ``outcome`` is the event that ended it; empty while it is live."""

    attempt: int
    pool: str
    flavor: str
    nodes: list[str]
    micro_usd_per_hour: int
    assigned_at_ms: int
    started_at_ms: int | None
    ended_at_ms: int | None
    saved_at_ms: int | None
    saved_step: int | None
    resumed_at_ms: int | None
    resumed_step: int | None
    outcome: str
    exit_code: int | None
    exit_signal: int | None
    exit_detail: str


class JobDetail(JobView):
    """A job with its attempts. ``document`` is as submitted, without its secrets."""

    attempts: list[Attempt]
    document: str


class JobPage(TypedDict):
    """A page of jobs, newest first."""

    items: list[JobView]
    next_cursor: str | None


class JobEventView(TypedDict):
    """An event of a job; ``detail`` has its further fields."""

    sequence: int
    at_ms: int
    type: str
    job_id: str
    queue: NotRequired[str]
    attempt: NotRequired[int]
    detail: dict[str, Any]


class JobEvents(TypedDict):
    """All events of a job, in order."""

    items: list[JobEventView]


class ReasonView(TypedDict):
    """Why a job does not start: the type of the reason, its text, and its numbers."""

    type: str
    text: str
    numbers: dict[str, Any]


class QueuePositionView(TypedDict):
    """The position of a job; the first is 1."""

    in_queue: int
    queue_length: int
    overall: int
    waiting: int
    is_exact: bool


class StartForecast(TypedDict):
    """When a job is expected to start: median and 90th percentile."""

    p50_start_ms: int | None
    p90_start_ms: int | None
    basis: str
    note: str
    text: str


class HoldingView(TypedDict):
    """Holders of the quota or capacity that a job lacks."""

    type: str
    text: str
    numbers: dict[str, Any]


class AlternativeView(TypedDict):
    """A change that would start the job now."""

    change: str
    pool: str
    micro_usd_per_hour: int
    expected_micro_usd: int
    text: str


class FairShareView(TypedDict):
    """A tenant's usage among its siblings."""

    tenant: str
    used_permille: int
    promised_permille: int
    rank: int
    siblings: int
    text: str


class JobHistoryView(TypedDict):
    """What stopped a job before: a preemption, a limit or a failure."""

    type: str
    at_ms: int
    attempt: int
    text: str
    numbers: dict[str, Any]


class ExplanationView(TypedDict):
    """The explanation of one job now; ``text`` has it in sentences.

    ``micro_usd_per_hour`` is the price where it runs, or where it could run for least.
    """

    id: str
    state: State
    queue: str
    reasons: list[ReasonView]
    position: QueuePositionView | None
    forecast: StartForecast | None
    holders: list[HoldingView]
    fair_shares: list[FairShareView]
    alternatives: list[AlternativeView]
    expected_end_ms: int | None
    micro_usd_per_hour: int | None
    history: list[JobHistoryView]
    text: list[str]


class InterruptionView(TypedDict):
    """One interruption of a job. ``recovery_ms`` counts from the start of the next attempt."""

    at_ms: int
    attempt: int
    cause: str
    pool: str
    ran_ms: int
    lost_ms: int
    lost_micro_usd: int
    recovery_ms: int | None
    waited_ms: int | None


class InterruptionReportView(TypedDict):
    """A job's interruptions in numbers, what would help, and all of it in ``text``."""

    id: str
    interruptions: list[InterruptionView]
    mean_run_ms: int | None
    saves: int
    saves_every_ms: int | None
    save_ms: int | None
    advised_every_ms: int | None
    mean_recovery_ms: int | None
    waited_ms: int
    lost_ms: int
    lost_micro_usd: int
    spent_micro_usd: int
    advice: list[str]
    text: list[str]


class PlanProblem(TypedDict):
    """One problem to fix before a job is accepted."""

    code: str
    field: str
    text: str
    fix: str


class PlannedStartView(TypedDict):
    """When a job would start if submitted now."""

    now: bool
    low_ms: int | None
    likely_ms: int | None
    high_ms: int | None
    basis: str
    text: str


class PlannedTask(TypedDict):
    """The tasks that would run on one node."""

    group: str
    node: str
    count: int
    gpus: list[int]


class PlannedPlace(TypedDict):
    """Where a job would run."""

    pool: str
    flavor: str
    nodes: list[str]
    tasks: list[PlannedTask]


class CostView(TypedDict):
    """The cost of a job, or of all members of an array.

    The price is that of the placement, or else of the cheapest pool that could run it. The maximum is known
    only with a maximum run time or a ceiling. ``ceiling_micro_usd`` is the job's ``max_cost``.
    """

    micro_usd_per_hour: int | None
    expected_micro_usd: int | None
    max_micro_usd: int | None
    ceiling_micro_usd: int | None


class Plan(TypedDict):
    """The plan of a job that is not submitted."""

    feasible: bool
    problems: list[PlanProblem]
    starts: PlannedStartView | None
    placement: PlannedPlace | None
    reasons: list[ReasonView]
    alternatives: list[AlternativeView]
    cost: CostView
    warnings: list[str]
    estimates: list[PlanEstimate]
    estimates_note: str
    text: list[str]


class Waiting(TypedDict):
    """A waiting job. ``position`` counts all jobs, including those that the caller may not see.

    The price is that of the cheapest pool that could run it.
    """

    id: str
    name: str
    queue: str
    owner: str
    state: State
    priority: int
    submitted_at_ms: int
    position: int
    is_exact: bool
    gpus: int
    micro_usd_per_hour: int | None
    reasons: list[ReasonView]
    reason: str


class WaitingPage(TypedDict):
    """A page of waiting jobs, in queue order."""

    items: list[Waiting]
    next_cursor: str | None
    waiting: int


class LogPiece(TypedDict):
    """Some output of one task, sent as a server-sent event."""

    task: int
    node: str
    stream: Stream
    text: str


class LogEnd(TypedDict):
    """The attempt has ended and all its output was sent."""

    state: State
    attempt: int
    exit_code: int | None
