"""Which running jobs may be stopped for a waiting one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bursar.core.preemption.candidates import may_preempt
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord, Rank, rank_of
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import AT_WORK
from bursar.model.tenants.policy import OrderTerm, Reclaim, WithinQueue
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import MILLI

Request = Mapping[FlavorResource, int]

# Members of an enum are looked up by a method of the enum; names of this module cost nothing.
_LATER_IN_ORDER: Final = WithinQueue.LATER_IN_ORDER
_LEAST_EXPECTED: Final = OrderTerm.LEAST_EXPECTED
_LEAVING: Final = frozenset({JobState.CANCELLING, JobState.EXPIRING})


class Evictable:
    """The running jobs of one flavor that may be stopped, collected once per cycle and queue."""

    def __init__(self, state: FleetState, flavor: str, now_ms: int) -> None:
        self._state = state
        self._flavor = flavor
        self._now_ms = now_ms
        self._ranks: dict[str, Rank] = {}
        self._turn_takers: dict[str, list[JobRecord]] = {}
        self._learned = _LEAST_EXPECTED in state.policies.order.terms
        limits = state.policies.preemption
        self._most_preemptions = limits.preemptions_per_job
        self._old_enough_ms = now_ms - limits.minimum_run_ms
        self._by_queue: dict[str, list[JobRecord]] = {}

    def _of_queue(self, queue: str) -> list[JobRecord]:
        """The jobs of a queue that may be stopped."""
        records = self._by_queue.get(queue)
        if records is None:
            running = self._state.running_in.get(queue, {}).values()
            records = self._by_queue[queue] = [one for one in running if self._may_be_stopped(one)]
        return records

    def _may_be_stopped(self, record: JobRecord) -> bool:
        placement = record.placement
        if placement is None:
            return False
        anchors = placement.anchors
        if placement.flavor != self._flavor and (anchors is None or anchors.flavor != self._flavor):
            return False
        if (
            record.assigned_at_ms <= self._old_enough_ms
            and record.state in AT_WORK
            and record.preemptions < self._most_preemptions
            and record.spec.preemptible
        ):
            return True
        return is_leaving(record, self._now_ms)

    def legal(self, record: JobRecord, request: Request) -> dict[str, list[JobRecord]]:
        """The jobs that this job may displace, by queue."""
        queue = record.spec.queue
        policy = self._state.preemption_policies[queue]
        by_queue: dict[str, list[JobRecord]] = {}
        for other in sorted({queue, *self._state.quota.borrowing_queues(queue, request)}):
            rule = policy.within_queue if other == queue else policy.reclaim
            legal = [
                candidate
                for candidate in self._candidates(rule, record, other)
                if is_leaving(candidate, self._now_ms)
                or self._may_displace(rule, record, candidate)
            ]
            if legal:
                by_queue[other] = legal
        return by_queue

    def _candidates(
        self, rule: WithinQueue | Reclaim, record: JobRecord, queue: str
    ) -> Sequence[JobRecord]:
        """The jobs of a queue that a rule could allow.

        Where jobs of one priority take turns by their expected run time, these are the same for every
        preemptor, so they are collected once per cycle.
        """
        if rule is not _LATER_IN_ORDER or not self._learned:
            return self._of_queue(queue)
        lowest = min(self._state.running_priorities.get(queue, ()), default=record.priority)
        if lowest < record.priority:
            return self._of_queue(queue)
        turn_takers = self._turn_takers.get(queue)
        if turn_takers is None:
            turn_takers = self._turn_takers[queue] = self._find_turn_takers(queue)
        return turn_takers

    def _find_turn_takers(self, queue: str) -> list[JobRecord]:
        """The jobs of a queue that take turns; the cheap conditions come first."""
        now_ms = self._now_ms
        return [
            one
            for one in self._state.running_in.get(queue, {}).values()
            if (
                one.spec.checkpoint.interval_ms is not None
                or one.limit_at_ms is not None
                or one.state in _LEAVING
            )
            and self._may_be_stopped(one)
            and (is_leaving(one, now_ms) or self._takes_turns(one))
        ]

    def _may_displace(
        self, rule: WithinQueue | Reclaim, record: JobRecord, candidate: JobRecord
    ) -> bool:
        if not may_preempt(rule, record, candidate):
            return False
        if rule is not _LATER_IN_ORDER or record.priority > candidate.priority:
            return True
        if self._learned:
            return self._takes_turns(candidate) and self._is_far_later(record, candidate)
        terms = len(self._state.policies.order.terms)
        return self._rank_if_waiting(candidate) > record.rank[:terms]

    def _takes_turns(self, candidate: JobRecord) -> bool:
        """Whether a job may be stopped only because another is expected to need less.

        It must save checkpoints, be small enough to be placed again, and be recent.
        """
        limits = self._state.policies.preemption
        age_ms = self._now_ms - candidate.submitted_at_ms
        if limits.settled_after_ms is not None and age_ms >= limits.settled_after_ms:
            return False
        if candidate.spec.checkpoint.interval_ms is None:
            return False
        assert candidate.placement is not None
        pool = self._state.pools[candidate.placement.pool]
        gpus = len(pool.nodes) * pool.spec.gpus_per_node
        most_milli = gpus * MILLI // limits.turn_part_of_pool
        return candidate.backlog.plan.gpu_milli <= most_milli

    def _is_far_later(self, record: JobRecord, candidate: JobRecord) -> bool:
        """Whether the candidate comes after the job by other terms, or is expected to need far more."""
        ratio = self._state.policies.preemption.turn_ratio
        terms = self._state.policies.order.terms
        ranks = zip(terms, record.rank, self._rank_if_waiting(candidate), strict=False)
        for term, mine, theirs in ranks:
            if term is _LEAST_EXPECTED:
                return int(theirs) > ratio * int(mine) > 0
            if mine != theirs:
                return (theirs,) > (mine,)
        return False

    def _rank_if_waiting(self, candidate: JobRecord) -> Rank:
        """The rank of a running job by the policy's terms, as if it waited."""
        rank = self._ranks.get(candidate.id)
        if rank is None:
            policy = self._state.policies.order
            rank = rank_of(candidate, policy, self._now_ms)[: len(policy.terms)]
            self._ranks[candidate.id] = rank
        return rank


def is_leaving(record: JobRecord, now_ms: int) -> bool:
    """Whether a job is ending anyway, so that stopping it costs nothing."""
    if record.state in _LEAVING:
        return True
    return record.limit_at_ms is not None and record.limit_at_ms <= now_ms


def may_preempt_any(state: FleetState, record: JobRecord, request: Request) -> bool:
    """Whether the job may displace any job at all: a cheap check before a search.

    In its own queue a job must have lower priority (or equal, where the policy allows). Elsewhere a queue
    must borrow, and the request must be within the quota of the job's side of the tree, unless the policy
    lets it reclaim while borrowing.
    """
    queue = record.spec.queue
    policy = state.preemption_policies[queue]
    priorities = state.running_priorities.get(queue)
    if priorities:
        lowest = min(priorities)
        if policy.within_queue is WithinQueue.LOWER_PRIORITY and lowest < record.priority:
            return True
        newer = policy.within_queue is WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY
        in_order = policy.within_queue is WithinQueue.LATER_IN_ORDER
        if (newer or in_order) and lowest <= record.priority:
            return True
    if policy.reclaim in (Reclaim.NEVER, Reclaim.UNSET):
        return False
    if not state.quota.others_borrow(queue, request):
        return False
    if policy.borrow_while_reclaiming or state.policies.preemption.fair_strategies:
        return True
    return all(
        state.quota.borrow_level(queue, fr, amount).may_reclaim for fr, amount in request.items()
    )
