"""Who takes part in a preemption: the job that wants in, those that may have to go, the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import FairStrategy, VictimOrder
from bursar.model.tenants.tenant import FlavorResource


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The waiting job, and which of its flavor-resources are contested (short without victims)."""

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
    """Already told to stop: its loss is certain, so it is always taken first."""
    lost_micro_usd: int = 0
    """Work since its last checkpoint, in money."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A running job that must stop so that the preemptor can start."""

    id: str
    reason: PreemptionReason


class TrialPlacement(Protocol):
    """Physical room, which is needed besides quota: a trial placement of the preemptor."""

    def remove(self, candidate_id: str) -> None:
        """Suppose this job had stopped."""

    def restore(self, candidate_id: str) -> None:
        """Suppose it had not, after all."""

    def fits(self) -> bool:
        """Whether the whole gang of the preemptor can be placed now."""


_LEGAL_STRATEGIES = (
    (),
    (FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,),
    (FairStrategy.LESS_THAN_INITIAL_SHARE,),
    (FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE, FairStrategy.LESS_THAN_INITIAL_SHARE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRules:
    """How victims are searched; no fair strategy means the classical search by hierarchy."""

    fair_strategies: tuple[FairStrategy, ...] = ()
    victim_order: VictimOrder = VictimOrder.NEWEST_FIRST
    room: TrialPlacement | None = None
    quota_entitles: bool = True
    """In the fair search, a preemptor whose queue stays within its quota need not compare shares."""
    retry_first_rule: bool = False
    """In the fair search, stopping own jobs lowers our share: ask the first rule once more then.

    Off by default. It finds victims the first look missed, but sparing own jobs afterwards raises
    our share again, and then the victims may have the better claim: the two could take turns.
    """

    def __post_init__(self) -> None:
        if self.fair_strategies not in _LEGAL_STRATEGIES:
            legal = "; ".join(", ".join(names) or "(none)" for names in _LEGAL_STRATEGIES)
            raise ValueError(f"these fair strategies do not go together; legal are: {legal}")
