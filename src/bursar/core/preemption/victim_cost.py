"""Which jobs a job could displace, and on which nodes that costs least.

The victim search knows quota and eligibility; this module knows nodes. It finds the nodes on which the job's
capacity costs the least lost work, so that the search considers only the jobs on these, instead of emptying
the fleet in priority order until some node is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from bursar.core.nodes.node import NodeState
from bursar.core.placement.pool_fit import PoolFit
from bursar.core.preemption import may_preempt
from bursar.core.quota.charge import lost_micro_usd
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord, Rank, expected_gpu_ms, rank_of
from bursar.model.jobs.attempt import Task
from bursar.model.jobs.job import JobState, TaskGroup, WholeGpus
from bursar.model.tenants.policy import OrderTerm, Reclaim, VictimOrder, WithinQueue
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import MILLI

SPARE_NODES: Final = 4
"""Extra nodes offered to the search, because eligibility differs among victims."""

ONE: Final = 10**18
"""Large compared with any GPU time, so that fractions of it can be compared as integers."""

Request = Mapping[FlavorResource, int]

# Members of an enum are looked up by a method of the enum; names of this module cost nothing.
_LATER_IN_ORDER: Final = WithinQueue.LATER_IN_ORDER
_LEAST_EXPECTED: Final = OrderTerm.LEAST_EXPECTED
_LEAVING: Final = frozenset({JobState.CANCELLING, JobState.EXPIRING})
_AT_WORK: Final = frozenset({JobState.STARTING, JobState.RUNNING})


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
            and record.state in _AT_WORK
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


def work_lost(record: JobRecord, now_ms: int) -> int:
    """The cost of the work lost by stopping a job now; 0 for one that is ending anyway."""
    if record.placement is None or is_leaving(record, now_ms):
        return 0
    return lost_micro_usd(
        record.placement.all_micro_usd_per_hour,
        max(0, now_ms - record.saved_at_ms),
        record.spec.checkpoint.restart_ms,
    )


def cost_of_stopping(record: JobRecord, order: VictimOrder, now_ms: int) -> int:
    """The cost by which victims are compared, and which is summed on each node; the least first.

    With ``LATEST_FIRST`` it is the inverse of the expected GPU time: a job that needs most costs least, and
    several cost more than one.
    """
    if order is VictimOrder.LATEST_FIRST and not is_leaving(record, now_ms):
        return ONE // max(1, expected_gpu_ms(record, now_ms))
    return work_lost(record, now_ms)


def on_cheapest_nodes(
    fit: PoolFit, legal: Iterable[JobRecord], count: int, cost_of: Callable[[JobRecord], int]
) -> set[str]:
    """The jobs on the nodes where capacity for the gang costs least; empty if there is not enough."""
    group = fit.plan.groups[0]
    gpus = group.gpu.count if isinstance(group.gpu, WholeGpus) else 0
    by_node: dict[str, list[tuple[int, int, str, int]]] = {}
    for record in legal:
        assert record.placement is not None
        lost = cost_of(record)
        for task in record.placement.all_tasks:
            entry = (record.priority, lost, record.id, _gpus_touched(task))
            by_node.setdefault(task.node, []).append(entry)
    priced: list[tuple[int, int, str, int]] = []
    for node_id, entries in by_node.items():
        node = fit.pool.by_id.get(node_id)
        if node is not None and node.is_open:
            cost = _cost_of_one_task(node, sorted(entries), gpus)
            if cost is not None:
                priced.append((*cost, node_id, _tasks_after(node, entries, group, gpus)))
    return _jobs_on(sorted(priced), by_node, count)


def _gpus_touched(task: Task) -> int:
    """An upper bound of the GPUs freed by a task; other jobs may share them."""
    if not task.slices and not task.shares:
        return len(task.gpus)
    shared = {use.gpu for use in task.slices} | {use.gpu for use in task.shares}
    return len(task.gpus) + len(shared)


def _cost_of_one_task(
    node: NodeState, entries: list[tuple[int, int, str, int]], gpus: int
) -> tuple[int, int] | None:
    """The highest priority and the cost of freeing a node for one task."""
    free, lost, priority = node.free_gpus, 0, 0
    if gpus == 0:
        return entries[0][0], entries[0][1]
    for its_priority, its_lost, _, its_gpus in entries:
        if free >= gpus:
            break
        free, lost, priority = free + its_gpus, lost + its_lost, its_priority
    return (priority, lost) if free >= gpus else None


def _tasks_after(
    node: NodeState, entries: list[tuple[int, int, str, int]], group: TaskGroup, gpus: int
) -> int:
    """How many tasks of the gang fit on the node without these jobs, by GPUs."""
    if gpus == 0 or group.count == 1:
        return 1
    return (node.free_gpus + sum(entry[3] for entry in entries)) // gpus


def _jobs_on(
    priced: list[tuple[int, int, str, int]],
    by_node: Mapping[str, list[tuple[int, int, str, int]]],
    count: int,
) -> set[str]:
    jobs: set[str] = set()
    spare = SPARE_NODES
    for _, _, node_id, tasks in priced:
        if count <= 0:
            spare -= 1
        if spare < 0:
            break
        count -= tasks
        jobs |= {entry[2] for entry in by_node[node_id]}
    return jobs
