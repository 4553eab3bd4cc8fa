"""Jobs on the wire. The client reads these, the server writes them, OpenAPI is made from them.

Standard library only, so that a command line that only asks does not load a server. Money is in
micro-dollars, time in milliseconds, GPUs in whole ones.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict

from bursar.api.wire.cost import PlanEstimate
from bursar.api.wire.fleet import FindingRow
from bursar.api.wire.spot import ProgressView

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
"""Whoever is not yours to see."""

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
    """Every error, whatever went wrong."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    fix: str
    request_id: str
    leader: NotRequired[str | None]


class Alive(TypedDict):
    """Whether the process answers, and whether it is the one that writes."""

    status: Literal["ok"]
    leader: bool
    version: str


class SubmittedView(TypedDict):
    """A job was accepted: durable, and never lost from now on.

    Of an array ``id`` is the id of all of it, which can be asked for like that of a job, and ``ids`` has
    one for each member.
    """

    id: str
    ids: list[str]
    state: State
    replayed: bool
    findings: list[FindingRow]
    """What house rules in dry-run would forbid of it; nothing was forbidden."""


class BulkSubmitted(TypedDict):
    """Many jobs were accepted, all of them."""

    ids: list[str]
    replayed: bool
    findings: list[FindingRow]


class ArrayMember(TypedDict):
    """One job of an array."""

    id: str
    state: State


class Array(TypedDict):
    """Jobs that came in together under one id, and how many of them are in which state."""

    size: int
    states: dict[str, int]
    members: list[ArrayMember]


class JobView(TypedDict):
    """A job in a list. An array has an id too and is shown as a job, with its members under ``array``."""

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
    """Of a job that was started again: whether it has gone on from a known step, or saved since."""
    progress: ProgressView | None
    labels: dict[str, str]
    array: NotRequired[Array]


class Attempt(TypedDict):
    """One try of a job. ``outcome`` is the event that ended it, empty while it lives."""

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
    """A job with everything known about it. ``document`` is as it was written, without its secrets."""

    attempts: list[Attempt]
    document: str


class JobPage(TypedDict):
    """Some jobs, newest first."""

    items: list[JobView]
    next_cursor: str | None


class JobEventView(TypedDict):
    """Something that happened to a job; ``detail`` has what else the event says."""

    sequence: int
    at_ms: int
    type: str
    job_id: str
    queue: NotRequired[str]
    attempt: NotRequired[int]
    detail: dict[str, Any]


class JobEvents(TypedDict):
    """All that happened to a job, in order."""

    items: list[JobEventView]


class ReasonView(TypedDict):
    """Why a job does not start: a kind, the sentence, and the numbers in it."""

    type: str
    text: str
    numbers: dict[str, Any]


class QueuePositionView(TypedDict):
    """Where a job stands; the first is number 1."""

    in_queue: int
    queue_length: int
    overall: int
    waiting: int
    is_exact: bool


class StartForecast(TypedDict):
    """When a job should start: even odds, and nine in ten."""

    p50_start_ms: int | None
    p90_start_ms: int | None
    basis: str
    note: str
    text: str


class HoldingView(TypedDict):
    """Who has what a job is missing."""

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
    """A tenant among its siblings."""

    tenant: str
    used_permille: int
    promised_permille: int
    rank: int
    siblings: int
    text: str


class JobHistoryView(TypedDict):
    """What stopped a job before: who took its place, which limit it came to, how it failed."""

    type: str
    at_ms: int
    attempt: int
    text: str
    numbers: dict[str, Any]


class ExplanationView(TypedDict):
    """Everything there is to say about one job now. ``text`` says it in sentences.

    ``micro_usd_per_hour`` is what it costs where it runs, or would cost where that is cheapest.
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


class PlanProblem(TypedDict):
    """One thing to put right before a job is accepted."""

    code: str
    field: str
    text: str
    fix: str


class PlannedStartView(TypedDict):
    """When a job would start if it were submitted now."""

    now: bool
    low_ms: int | None
    likely_ms: int | None
    high_ms: int | None
    basis: str
    text: str


class PlannedTask(TypedDict):
    """What would run on one node."""

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
    """What a job would cost, all members of an array together.

    The price is that of its place, or without one that of the cheapest pool that could run it. The most is
    known only with a maximum run time or a ceiling. ``ceiling_micro_usd`` is what its user allows it to cost.
    """

    micro_usd_per_hour: int | None
    expected_micro_usd: int | None
    max_micro_usd: int | None
    ceiling_micro_usd: int | None


class Plan(TypedDict):
    """What would become of a job, before it is submitted."""

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
    """A waiting job. ``position`` counts everybody, also those you do not see.

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
    """Waiting jobs in the order in which they come."""

    items: list[Waiting]
    next_cursor: str | None
    waiting: int


class LogPiece(TypedDict):
    """Some output of one task, as server-sent events carry it."""

    task: int
    node: str
    stream: Stream
    text: str


class LogEnd(TypedDict):
    """The attempt is over and all its output was sent."""

    state: State
    attempt: int
    exit_code: int | None
