"""The inputs of a victim search, which candidates are eligible, and the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import FairStrategy, Reclaim, VictimOrder, WithinQueue
from bursar.model.tenants.tenant import FlavorResource

OrderKey = tuple[bool, bool, int, int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The waiting job; ``contested`` are the flavor-resources it lacks."""

    id: str
    queue: str
    priority: int
    queued_at_ms: int
    requests: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A running job that might become a victim."""

    id: str
    queue: str
    priority: int
    queued_at_ms: int
    started_at_ms: int
    usage: Mapping[FlavorResource, int]
    stopping: bool = False
    """It is already stopping, so it is always chosen first."""
    lost_micro_usd: int = 0
    """The cost of its work since the last checkpoint."""


Running = Mapping[str, Sequence[Candidate]]
"""The running jobs of each queue that might become victims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A running job that must stop so that the preemptor can start."""

    id: str
    reason: PreemptionReason


class TrialPlacement(Protocol):
    """A trial placement of the preemptor: it needs capacity as well as quota."""

    def remove(self, candidate_id: str) -> None:
        """Assume that this job has stopped."""

    def restore(self, candidate_id: str) -> None:
        """Undo ``remove``."""

    def fits(self) -> bool:
        """Whether the whole gang of the preemptor fits now."""


_LEGAL_STRATEGIES = (
    (),
    (FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,),
    (FairStrategy.LESS_THAN_INITIAL_SHARE,),
    (FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE, FairStrategy.LESS_THAN_INITIAL_SHARE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRules:
    """How victims are searched: by fair share, or by hierarchy if there is no fair strategy."""

    fair_strategies: tuple[FairStrategy, ...] = ()
    victim_order: VictimOrder = VictimOrder.NEWEST_FIRST
    placement: TrialPlacement | None = None
    quota_entitles: bool = True
    """In the fair search, a preemptor whose queue stays within its quota need not compare shares."""
    retry_first_rule: bool = False
    """In the fair search, apply the first rule again after own jobs were chosen as victims.

    Stopping own jobs lowers the preemptor's share, so the rule may then allow more victims. Off by default:
    sparing own jobs afterwards raises the share again, and two jobs could preempt each other in turn.
    """

    def __post_init__(self) -> None:
        if self.fair_strategies not in _LEGAL_STRATEGIES:
            legal = "; ".join(", ".join(names) or "(none)" for names in _LEGAL_STRATEGIES)
            raise ValueError(f"these fair strategies cannot be combined; legal are: {legal}")


class Ranked(Protocol):
    """The attributes of a job that decide eligibility."""

    @property
    def priority(self) -> int: ...

    @property
    def queued_at_ms(self) -> int: ...


def may_preempt(rule: WithinQueue | Reclaim, preemptor: Ranked, candidate: Ranked) -> bool:
    """Whether a rule lets one job preempt another; equal age is not newer, which prevents loops.

    Under ``LATER_IN_ORDER`` the caller must pass only candidates that are later in its order.
    """
    match rule:
        case WithinQueue.LOWER_PRIORITY | Reclaim.LOWER_PRIORITY:
            return preemptor.priority > candidate.priority
        case WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY:
            if preemptor.priority == candidate.priority:
                return preemptor.queued_at_ms < candidate.queued_at_ms
            return preemptor.priority > candidate.priority
        case WithinQueue.LATER_IN_ORDER:
            return preemptor.priority >= candidate.priority
        case Reclaim.ANY:
            return True
    return False


def eligible(
    rule: WithinQueue | Reclaim, preemptor: Preemptor, candidates: Iterable[Candidate]
) -> list[Candidate]:
    """Those that use something contested and that a rule lets the preemptor displace."""
    return [
        one
        for one in candidates
        if not preemptor.contested.isdisjoint(one.usage) and may_preempt(rule, preemptor, one)
    ]


def victim_key(candidate: Candidate, own_queue: str, order: VictimOrder) -> OrderKey:
    """Sorts by: already stopping, other queues, lower priority, cost (by policy), newest.

    Eligibility is decided before anything is sorted.
    """
    lost = 0 if order is VictimOrder.NEWEST_FIRST else candidate.lost_micro_usd
    return (
        not candidate.stopping,
        candidate.queue == own_queue,
        candidate.priority,
        lost,
        -candidate.started_at_ms,
        candidate.id,
    )


def in_victim_order(
    candidates: Iterable[Candidate], own_queue: str, order: VictimOrder
) -> list[Candidate]:
    """The candidates, the first to stop first."""
    return sorted(candidates, key=lambda candidate: victim_key(candidate, own_queue, order))
