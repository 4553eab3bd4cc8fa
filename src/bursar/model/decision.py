"""Decisions of a cycle: orders act; a hold gives the reasons why jobs of a kind wait."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobKind
from bursar.model.reason import Reason


class PreemptionReason(StrEnum):
    """The rule under which a job is preempted."""

    IN_QUEUE = "in-queue"
    RECLAIM = "reclaim"
    RECLAIM_WHILE_BORROWING = "reclaim-while-borrowing"
    FAIR_SHARE = "fair-share"


class StopReason(StrEnum):
    """Why a running attempt is stopped other than by preemption."""

    CANCELLED = "cancelled"
    TIME_LIMIT = "time-limit"
    COST_LIMIT = "cost-limit"
    BUDGET = "budget"
    """Its tenant's budget is spent; the job is queued again."""
    MOVE = "move"
    """It moves: to non-spot capacity to meet its deadline, or back to spot to cost less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """Start this attempt at this placement."""

    job_id: str
    attempt: int
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptJob:
    """Stop this attempt for another job; its job is queued again."""

    job_id: str
    attempt: int
    on_behalf_of: str
    reason: PreemptionReason
    lost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJob:
    """Stop this attempt; its job ends unless the reason is a budget or a move.

    ``charged_micro_usd`` is set for a cost limit.
    """

    job_id: str
    attempt: int
    reason: StopReason
    charged_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvacuateJob:
    """Stop this attempt before ``node`` is reclaimed; its job is queued again.

    It has at most ``grace_ms`` to save its work; that ends before the node does.
    """

    job_id: str
    attempt: int
    node: str
    grace_ms: int
    lost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPlacement:
    """Reserve this placement for the job until its victims have stopped."""

    job_id: str
    placement: Placement
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseClaim:
    """Release the placement reserved for the job."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGpu:
    """Give an idle GPU this MIG layout before anything starts on it."""

    node: str
    gpu: int
    layout: tuple[MigInstance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """These jobs do not start now, for all these reasons.

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
