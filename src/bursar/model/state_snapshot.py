"""A snapshot of the fleet state, from which a server starts instead of replaying the log."""

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
    """The current hourly price of its placement, if it has changed since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A placement reserved for a waiting job, and the attempts that must stop first."""

    placement: Placement
    attempts: Mapping[str, int]

    @property
    def victims(self) -> tuple[str, ...]:
        """The jobs that must stop, by id; ``attempts`` has the attempt of each."""
        return tuple(self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """A job that has not ended. ``attempt`` counts attempts so far, the live one included."""

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
    claim: Claim | None = None
    charged_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSnapshot:
    """A tenant's decayed usage at a time, its descendants included."""

    tenant: str
    value: float
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSnapshot:
    """A spot pool's history: losses, node time, ended intervals without and with capacity."""

    pool: str
    at_ms: int
    since_ms: int
    losses: float
    node_ms: float
    ends: tuple[float, float]
    expected: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSnapshot:
    """The whole snapshot. ``declared`` has the current tenants and prices."""

    declared: FleetDeclared
    added: tuple[Node, ...]
    absent: tuple[str, ...]
    drained: tuple[str, ...]
    layouts: tuple[GpuPartitioned, ...]
    foreign: tuple[ForeignUsageSeen, ...]
    jobs: tuple[JobSnapshot, ...]
    usage: tuple[UsageSnapshot, ...]
    failed: tuple[tuple[str, JobState], ...]
    """Jobs that ended without success and that others depend on."""
    notices: tuple[SpotNotice, ...] = ()
    """Notices in force; a node that will be terminated is also drained."""
    spot: tuple[SpotSnapshot, ...] = ()
    """History of spot pools; snapshots of earlier versions have none."""
    budget_levels: tuple[BudgetLevelChanged, ...] = ()
    """The current level of each budget."""
