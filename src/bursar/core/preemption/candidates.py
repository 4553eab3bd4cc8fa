"""The inputs of a victim search: the preemptor, the candidates and the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import FairStrategy, VictimOrder
from bursar.model.tenants.tenant import FlavorResource


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
