"""What a cycle answers. An order acts; a hold says why not, in numbers, for every job of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job_kind import JobKind
from bursar.model.reason import Reason


class PreemptionReason(StrEnum):
    """By what right a job was preempted."""

    IN_QUEUE = "in-queue"
    RECLAIM = "reclaim"
    RECLAIM_WHILE_BORROWING = "reclaim-while-borrowing"
    FAIR_SHARE = "fair-share"


class StopReason(StrEnum):
    """Why a running attempt is ended, though nobody gets its room."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time-limit"
    COST_LIMIT = "cost-limit"
    BUDGET = "budget"
    """Its tenant's budget is spent. The job is not over: it waits for the next period."""
    MOVE = "move"
    """It goes on elsewhere: on steady capacity to meet its deadline, or on spot again to cost less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """Run this attempt of the job exactly there."""

    job_id: str
    attempt: int
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptJob:
    """Stop this attempt so that another job may run; its job waits again."""

    job_id: str
    attempt: int
    on_behalf_of: str
    reason: PreemptionReason
    lost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob:
    """Stop this attempt; its job is over, but for a budget or a move.

    ``charged_micro_usd`` is told when that is why.
    """

    job_id: str
    attempt: int
    reason: StopReason
    charged_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuateJob:
    """Stop this attempt before ``node`` is taken away; its job waits again.

    It has at most ``grace_ms`` to save its work, which ends before the node does.
    """

    job_id: str
    attempt: int
    node: str
    grace_ms: int
    lost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlacement:
    """Keep this place for the job until its victims have left."""

    job_id: str
    placement: Placement
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseClaim:
    """Stop keeping a place for the job: it may not, or need not, have it any more."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGpu:
    """Give a GPU without holders this MIG layout, before anything starts on it."""

    node: str
    gpu: int
    layout: tuple[MigInstance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing starts for these jobs now, and this is every reason.

    ``head`` is the first of the ``waiting`` jobs of the kind. ``jobs`` is filled only when the hold is
    for particular jobs rather than for all that wait of the kind (a claim being served, for instance).
    """

    kind: JobKind
    head: str
    waiting: int
    reasons: tuple[Reason, ...]
    jobs: tuple[str, ...] = ()


Order = StartJob | PreemptJob | StopJob | EvacuateJob | ClaimPlacement | ReleaseClaim | PartitionGpu
Decision = Order | Hold
