"""How long a job takes in a pool that interrupts it, and what that costs: the work that is done again too."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.core.deadline.checkpoint_interval import Interruptions, expected_wall_seconds
from bursar.model.job import Checkpoint
from bursar.model.units import HOUR_MS, SECOND_MS

MILLION = 1_000_000
MOST_EXPONENT = 40.0
NEVER_ENDS_MS = 1 << 50
"""What is expected of a job that is interrupted so often that it will not end: more than 30,000 years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """How often one node is lost, and on how many nodes a job stands: the loss of any stops it."""

    per_million_hours: int
    nodes: int = 1

    @property
    def between_ms(self) -> int | None:
        """How long the job runs on average before it is interrupted; None when it never is."""
        rate = self.per_million_hours * self.nodes
        return MILLION * HOUR_MS // rate if rate else None


def expected_run_ms(work_ms: int, saving: Checkpoint, hazard: Hazard) -> int:
    """How long the work takes on average, with what is lost and the restarts (Daly).

    Interruptions come without memory. What is not saved since the last checkpoint is lost; a job that
    saves nothing loses all of it.
    """
    between_ms = hazard.between_ms
    if between_ms is None or work_ms <= 0:
        return work_ms
    stretch_ms = min(work_ms, saving.interval_ms or work_ms)
    if between_ms <= 0 or (stretch_ms + saving.restart_ms) / between_ms > MOST_EXPONENT:
        return NEVER_ENDS_MS
    failures = Interruptions(
        between_failures_seconds=between_ms / SECOND_MS,
        restart_seconds=saving.restart_ms / SECOND_MS,
    )
    wall = expected_wall_seconds(work_ms / SECOND_MS, stretch_ms / SECOND_MS, 0.0, failures)
    return min(NEVER_ENDS_MS, max(work_ms, round(wall * SECOND_MS)))
