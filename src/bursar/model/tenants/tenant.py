"""The tenant tree (organisation > team > project > user), with queues as leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bursar.model.tenants.policy import PreemptionPolicy, Reclaim, WithinQueue

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
    """The period after which a budget is reset."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


class Enforcement(StrEnum):
    """What a spent budget does: warn, or stop what would spend more."""

    SOFT = "soft"
    HARD = "hard"


class BudgetAction(StrEnum):
    """What happens when so much is spent. Each includes all before it."""

    NOTIFY = "notify"
    """Only a notification is sent."""
    BLOCK_BORROWING = "block-borrowing"
    """No job starts on borrowed quota."""
    BLOCK_NEW = "block-new"
    """No job starts."""
    STOP_PREEMPTIBLE = "stop-preemptible"
    """Preemptible jobs are stopped and queued again."""
    STOP_ALL = "stop-all"
    """All jobs are stopped and queued again."""

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {action: rank for rank, action in enumerate(BudgetAction)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStep:
    """The action from a percentage of the amount on."""

    at_percent: int
    action: BudgetAction


USUAL_STEPS = {
    Enforcement.SOFT: (
        BudgetStep(at_percent=80, action=BudgetAction.NOTIFY),
        BudgetStep(at_percent=100, action=BudgetAction.BLOCK_BORROWING),
    ),
    Enforcement.HARD: (
        BudgetStep(at_percent=80, action=BudgetAction.NOTIFY),
        BudgetStep(at_percent=90, action=BudgetAction.BLOCK_BORROWING),
        BudgetStep(at_percent=100, action=BudgetAction.BLOCK_NEW),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a tenant and its descendants may spend in each period.

    A hard budget is never overdrawn: a job is admitted only if its maximum cost is left. ``steps`` are
    actions at percentages of the amount; empty means the defaults of the enforcement.
    """

    amount_micro_usd: int
    period: BudgetPeriod = BudgetPeriod.MONTH
    enforcement: Enforcement = Enforcement.SOFT
    steps: tuple[BudgetStep, ...] = ()

    @property
    def effective_steps(self) -> tuple[BudgetStep, ...]:
        return self.steps or USUAL_STEPS[self.enforcement]

    def step_at(self, level_percent: int) -> BudgetStep | None:
        """The strongest step among those that a level has reached."""
        reached = [one for one in self.effective_steps if one.at_percent <= level_percent]
        return max(reached, key=lambda one: (one.action.rank, one.at_percent), default=None)

    def level_of(self, spent_micro_usd: int) -> int:
        """The highest step that the spending has reached, in percent; 0 before the first."""
        amount = self.amount_micro_usd
        return max(
            (
                one.at_percent
                for one in self.effective_steps
                if spent_micro_usd * 100 >= one.at_percent * amount
            ),
            default=0,
        )


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
