"""Scheduling policies that a platform team chooses by name; the rules are in ``core``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bursar.model.tenants.governance import Governance
from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS


class WithinQueue(StrEnum):
    """Which jobs of its own queue a job may preempt."""

    UNSET = "unset"
    """Not declared: no victims, like ``never``."""
    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "lower-or-newer-equal-priority"
    LATER_IN_ORDER = "later-in-order"
    """Jobs that would be later in the order if they were waiting: time sharing."""


class Reclaim(StrEnum):
    """From which jobs of queues that borrow a job may take back what they borrowed."""

    UNSET = "unset"
    """Not declared: no victims, like ``never``."""
    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class BorrowWhileReclaiming:
    """Permission to borrow in the same act as reclaiming from jobs of lower priority."""

    max_priority: int | None = None
    """Only from victims up to this priority; ``None`` for no such bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPolicy:
    """What one queue allows its waiting jobs to do to running ones."""

    within_queue: WithinQueue = WithinQueue.NEVER
    reclaim: Reclaim = Reclaim.NEVER
    borrow_while_reclaiming: BorrowWhileReclaiming | None = None


class SharePolicy(StrEnum):
    """How tenants of equal priority are compared."""

    FAIR_TREE = "fair-tree"
    DOMINANT_SHARE = "dominant-share"
    NONE = "none"


class UsageUnit(StrEnum):
    """What fair share counts: dollars, or GPU time normalised by model."""

    DOLLARS = "dollars"
    GPU_HOURS = "gpu-hours"


class OrderTerm(StrEnum):
    """What jobs of one queue (or of all, with ``SharePolicy.NONE``) are sorted by, first term first."""

    DEADLINE = "deadline"
    SUBMITTED = "submitted"
    SHORTEST = "shortest"
    SMALLEST = "smallest"
    LEAST_WORK = "least-work"
    SHORTEST_REMAINING = "shortest-remaining"
    LEAST_ATTAINED = "least-attained"
    """By level of GPU time already used (``attained_levels_gpu_ms``), least first."""
    LEAST_EXPECTED = "least-expected"
    """By expected total GPU time, from similar jobs and its own usage; equal while few jobs have ended."""


class PlacementPolicy(StrEnum):
    """Which of the nodes that fit is taken."""

    REMAINING_CAPACITY = "remaining-capacity"
    """Where it reduces least the capacity for the usual mix of tasks."""
    BEST_FIT = "best-fit"
    FIRST_FIT = "first-fit"
    PACKING = "packing"
    DOT_PRODUCT = "dot-product"
    FRAGMENTATION_GRADIENT = "fragmentation-gradient"
    RANDOM = "random"
    """Drawn from ``placement_seed``, the job and the nodes: the same state gives the same choice."""


LEARNING_PLACEMENTS = frozenset(
    {PlacementPolicy.REMAINING_CAPACITY, PlacementPolicy.FRAGMENTATION_GRADIENT}
)
"""Policies that use the observed mix of tasks."""


class VictimOrder(StrEnum):
    """Which of several equally legal victims goes first."""

    NEWEST_FIRST = "newest-first"
    LEAST_LOST_WORK = "least-lost-work"
    LATEST_FIRST = "latest-first"
    """The one with the most expected work left."""


class FairStrategy(StrEnum):
    """When a fair share justifies a victim in another queue."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "less-than-or-equal-to-final-share"
    """The preemptor's side ends with no more than the victim's side keeps."""
    LESS_THAN_INITIAL_SHARE = "less-than-initial-share"
    """The preemptor's side ends with less than the victim's side had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPolicy:
    """Job order: priority class, then share between tenants, then the terms within a queue."""

    share: SharePolicy = SharePolicy.FAIR_TREE
    terms: tuple[OrderTerm, ...] = (OrderTerm.DEADLINE, OrderTerm.LEAST_EXPECTED)
    half_life_ms: int | None = 7 * DAY_MS
    usage_unit: UsageUnit = UsageUnit.DOLLARS
    entry_horizon_ms: int = 30 * MINUTE_MS
    attained_levels_gpu_ms: tuple[int, ...] = (HOUR_MS, 4 * HOUR_MS, 16 * HOUR_MS)
    aging_step_ms: int | None = None
    urgent_slack_ms: int = HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPolicy:
    """How many blocked kinds get a reservation: 0 turns backfill protection off, 1 is EASY.

    A planned start of a job without a known run time is a guess that idles GPUs. Such a job gets a
    reservation only after waiting for ``reserve_unknown_after_ms``.
    """

    reservations: int = 1
    unknown_run_time_ms: int = DAY_MS
    reserve_unknown_after_ms: int = DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionLimits:
    """Limits that keep preemption from losing more work than it speeds up.

    The last three are for time sharing, where a job is stopped because another needs less: that one must
    need ``turn_ratio`` times less; the victim must save its work, hold at most 1/``turn_part_of_pool`` of
    its pool's GPUs, so that it can be placed again, and be younger than ``settled_after_ms``, so that no
    job starves.
    """

    victim_order: VictimOrder = VictimOrder.LEAST_LOST_WORK
    fair_strategies: tuple[FairStrategy, ...] = ()
    minimum_run_ms: int = 5 * MINUTE_MS
    preemptions_per_job: int = 3
    searches_per_cycle: int = 8
    turn_ratio: int = 4
    turn_part_of_pool: int = 12
    settled_after_ms: int | None = DAY_MS


class DeadlineRule(StrEnum):
    """Where a job with a deadline runs that may run on spot."""

    ON_DEMAND = "on-demand"
    GREEDY = "greedy"
    UNIFORM_PROGRESS = "uniform-progress"
    EXPECTED_COST = "expected-cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotPolicy:
    """How jobs that may run on spot choose.

    A job with a deadline is checked every ``tick_ms``. ``change_over_ms`` is how long an attempt takes to
    stop and start elsewhere, besides the job's own restart time. Losses of spot nodes decay with
    ``half_life_ms``. Similar jobs are spread over spot pools unless another pool is dearer by
    ``spread_percent`` or more; 0 uses only the cheapest.
    """

    deadline_rule: DeadlineRule = DeadlineRule.EXPECTED_COST
    tick_ms: int = 5 * MINUTE_MS
    change_over_ms: int = 5 * MINUTE_MS
    half_life_ms: int = 14 * DAY_MS
    spread_percent: int = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All the named choices of one fleet."""

    order: OrderPolicy = field(default_factory=OrderPolicy)
    placement: PlacementPolicy = PlacementPolicy.REMAINING_CAPACITY
    placement_seed: int = 0
    backfill: BackfillPolicy = field(default_factory=BackfillPolicy)
    preemption: PreemptionLimits = field(default_factory=PreemptionLimits)
    spot: SpotPolicy = field(default_factory=SpotPolicy)
    governance: Governance = field(default_factory=Governance)
    priority_classes: Mapping[str, int] = field(
        default_factory=lambda: {"low": -100, "normal": 0, "high": 100, "critical": 1000}
    )
