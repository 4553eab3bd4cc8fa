"""The order in which candidates are tried as victims."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.core.preemption.candidates import Candidate
from bursar.model.tenants.policy import VictimOrder

OrderKey = tuple[bool, bool, int, int, int, str]


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
