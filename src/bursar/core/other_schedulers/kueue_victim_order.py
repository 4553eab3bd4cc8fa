"""Kueue's preemption order under admission fair sharing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import merge

from bursar.core.preemption.candidates import Candidate, OrderKey, victim_key
from bursar.model.tenants.policy import VictimOrder


def heaviest_owner_first(
    candidates: Iterable[Candidate],
    own_queue: str,
    order: VictimOrder,
    owner_usage: Mapping[str, float],
) -> list[Candidate]:
    """Sort candidates; where a queue shares by owner, its heaviest owner's jobs go first.

    ``owner_usage`` is the recent usage of each job's owner, by job. Owners of different queues are
    not comparable, so each queue is sorted separately, and the queues are then merged by the next
    victim of each.
    """
    queues: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        queues.setdefault(candidate.queue, []).append(candidate)

    def key(candidate: Candidate) -> OrderKey:
        return victim_key(candidate, own_queue, order)

    def heaviest_key(candidate: Candidate) -> tuple[bool, float, OrderKey]:
        return not candidate.stopping, -owner_usage[candidate.id], key(candidate)

    sorted_queues = (
        sorted(jobs, key=heaviest_key if all(job.id in owner_usage for job in jobs) else key)
        for _, jobs in sorted(queues.items())
    )
    return list(merge(*sorted_queues, key=key))
