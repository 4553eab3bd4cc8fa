"""The present of a fleet in a few values: what a start needs instead of all that ever happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.model.event import (
    BudgetLevelChanged,
    FleetDeclared,
    ForeignUsageSeen,
    GpuPartitioned,
    SpotNotice,
)
from bursar.model.fleet.fleet import Node
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnapshot:
    """A live attempt and what it holds; ``micro_usd_weight`` is what it counts for in fair share."""

    placement: Placement
    weight: int
    assigned_at_ms: int
    started_at_ms: int | None
    saved_at_ms: int
    end_at_ms: int
    stop_requested: bool
    noticed: bool = False
    moving: bool = False
    repriced_micro_usd: int | None = None
    """What its place costs an hour now, where that is not what it was promised at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSnapshot:
    """A place kept for a waiting job, and the attempts that must leave it."""

    placement: Placement
    attempts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """A job that is not over. ``attempt`` counts the tries so far, the live one included."""

    id: str
    spec: JobSpec
    priority: int
    submitted_at_ms: int
    state: JobState
    attempt: int
    failures: int
    preemptions: int
    done_ms: int
    has_run: bool
    attained_gpu_ms: int
    unmet: tuple[str, ...]
    saved_step: int | None = None
    save_ms: int | None = None
    unprompted: int = 0
    live: AttemptSnapshot | None = None
    claim: ClaimSnapshot | None = None
    charged_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSnapshot:
    """What a tenant had used at a moment, everything below it included."""

    tenant: str
    value: float
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSnapshot:
    """What a spot pool had done by a moment: losses, node time, and ends of spells (without room, with)."""

    pool: str
    at_ms: int
    since_ms: int
    losses: float
    node_ms: float
    ends: tuple[float, float]
    expected: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot:
    """All of it. ``declared`` holds tenants and prices as they are now, not as they were declared first."""

    declared: FleetDeclared
    added: tuple[Node, ...]
    absent: tuple[str, ...]
    drained: tuple[str, ...]
    layouts: tuple[GpuPartitioned, ...]
    foreign: tuple[ForeignUsageSeen, ...]
    jobs: tuple[JobSnapshot, ...]
    usage: tuple[UsageSnapshot, ...]
    failed: tuple[tuple[str, JobState], ...]
    """Jobs that are over without success and that others still wait for."""
    notices: tuple[SpotNotice, ...] = ()
    """Those in force; a node that is taken away is also among the drained."""
    spot: tuple[SpotSnapshot, ...] = ()
    """The past of spot pools; snapshots of earlier versions have none."""
    budget_levels: tuple[BudgetLevelChanged, ...] = ()
    """The last word on each budget."""
