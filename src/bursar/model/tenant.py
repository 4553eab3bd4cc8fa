"""Who shares the fleet: the tree organisation > team > project > user, with queues at its leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bursar.model.policy import PreemptionPolicy, Reclaim, WithinQueue

FlavorResource = tuple[str, str]
"""A flavor and a resource held in it, e.g. ``("a100-80gb/spot", "gpu")``."""

GPU = "gpu"
CPU = "cpu"
MEMORY = "memory"
RESOURCES = (GPU, CPU, MEMORY)
"""What quotas can be held in: milli-GPUs, milli-CPUs, MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may hold now: its own, what it may borrow above it, what it may lend of it."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class BudgetPeriod(StrEnum):
    """When a budget begins anew."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


class Enforcement(StrEnum):
    """What a spent budget does: warn, or stop what would spend more."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a tenant, with all below it, means to spend in each period."""

    amount_micro_usd: int
    period: BudgetPeriod = BudgetPeriod.MONTH
    enforcement: Enforcement = Enforcement.SOFT


class Queueing(StrEnum):
    """What a blocked head does to the jobs behind it in its queue."""

    BEST_EFFORT = "best-effort"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A node of the tenant tree. A queue is a leaf where jobs wait."""

    name: str
    parent: str | None = None
    weight: float = 1.0
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    is_queue: bool = False
    budget: Budget | None = None
    queueing: Queueing = Queueing.BEST_EFFORT
    preemption: PreemptionPolicy = field(
        default_factory=lambda: PreemptionPolicy(
            within_queue=WithinQueue.LOWER_PRIORITY, reclaim=Reclaim.ANY
        )
    )
