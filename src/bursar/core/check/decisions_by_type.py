"""The decisions of one cycle, grouped by type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from bursar.model.decision import (
    ClaimPlacement,
    Decision,
    EvacuateJob,
    Hold,
    PartitionGpu,
    PreemptJob,
    ReleaseClaim,
    StartJob,
    StopJob,
)
from bursar.model.jobs.attempt import Placement


class DecisionsByType:
    """Decisions of each type, in list order."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self.starts: list[StartJob] = []
        self.claims: list[ClaimPlacement] = []
        self.preemptions: list[PreemptJob] = []
        self.stops: list[StopJob] = []
        self.evacuations: list[EvacuateJob] = []
        self.released: list[str] = []
        self.holds: list[Hold] = []
        for decision in decisions:
            match decision:
                case StartJob():
                    self.starts.append(decision)
                case Hold():
                    self.holds.append(decision)
                case ClaimPlacement():
                    self.claims.append(decision)
                case PreemptJob():
                    self.preemptions.append(decision)
                case StopJob():
                    self.stops.append(decision)
                case EvacuateJob():
                    self.evacuations.append(decision)
                case ReleaseClaim():
                    self.released.append(decision.job_id)
                case PartitionGpu():
                    pass
                case _:
                    assert_never(decision)

    @property
    def stopped_jobs(self) -> set[str]:
        """Jobs that are preempted, evacuated or stopped."""
        preempted = {order.job_id for order in self.preemptions}
        evacuated = {order.job_id for order in self.evacuations}
        return preempted | evacuated | {order.job_id for order in self.stops}

    @property
    def new_placements(self) -> list[tuple[str, Placement]]:
        """Placements of starts and claims, with their jobs."""
        starts = [(order.job_id, order.placement) for order in self.starts]
        return starts + [(order.job_id, order.placement) for order in self.claims]
