"""In which order candidates are tried as victims."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge

from bursar.core.preemption.parties import Candidate
from bursar.model.policy import VictimOrder

OrderKey = tuple[bool, bool, int, int, int, str]


def victim_key(candidate: Candidate, own_queue: str, order: VictimOrder) -> OrderKey:
    """Already stopping, then other queues, then lower priority; then cheapest if so wished; newest.

    The order alone is never a licence: legality has been decided before anything is sorted.
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
    """Sort candidates; where a queue shares by owner, its heaviest owner's jobs go first.

    Owners of different queues are not comparable. So each queue is put in order by itself, and the
    queues are then merged by the candidate that each would give up next.
    """
    found = list(candidates)
    if all(candidate.owner_usage is None for candidate in found):
        return sorted(found, key=lambda candidate: victim_key(candidate, own_queue, order))
    queues: dict[str, list[Candidate]] = {}
    for candidate in found:
        queues.setdefault(candidate.queue, []).append(candidate)
    return list(
        merge(
            *(_heaviest_owner_first(queues[name], own_queue, order) for name in sorted(queues)),
            key=lambda candidate: victim_key(candidate, own_queue, order),
        )
    )


def _heaviest_owner_first(
    candidates: list[Candidate], own_queue: str, order: VictimOrder
) -> list[Candidate]:
    by_owner = all(candidate.owner_usage is not None for candidate in candidates)

    def key(candidate: Candidate) -> tuple[bool, float, OrderKey]:
        heaviness = candidate.owner_usage if by_owner else None
        return not candidate.stopping, -(heaviness or 0.0), victim_key(candidate, own_queue, order)

    return sorted(candidates, key=key)
