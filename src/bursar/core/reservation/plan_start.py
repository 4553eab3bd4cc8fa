"""Plan the start of a blocked gang from the expected ends of what runs, and keep its place for it.

Others may use the kept nodes, and the quota the plan counts on, until the planned start, never past
it: that is what makes passing a blocked job harmless. With one reservation this is EASY backfill, with
K it is conservative for the first K blocked kinds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from bursar.core.draft import Draft, Reservation, request_in_flavor
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import NODE_LEVEL, PoolState
from bursar.core.placement.pool_fit import Counts, PoolFit
from bursar.core.placement.search import count_fitting_tasks
from bursar.core.state.job_record import JobRecord
from bursar.model.jobs.attempt import Task
from bursar.model.jobs.job import TaskGroup, WholeGpus
from bursar.model.tenants.tenant import FlavorResource
from bursar.model.units import MINUTE_MS

OVERDUE_MS = MINUTE_MS
"""When a job is past its expected end, its end is expected this much from now."""


End = tuple[int, str, tuple[Task, ...], Mapping[FlavorResource, int]]
"""When something ends, whose it is, and the room and the quota that it gives back."""


class _Outlook:
    """How many tasks of a group each node will have room for, as running jobs end."""

    def __init__(self, draft: Draft, fit: PoolFit, group: TaskGroup, count: int) -> None:
        self.pool = fit.pool
        self.group = group
        self.count = count
        self.domain: str | None = None
        self.gpus = group.gpu.count if isinstance(group.gpu, WholeGpus) else 0
        self.constraints = fit.plan.shape.constraints
        topology = self.constraints.topology
        self.level = topology.required if topology is not None else None
        self.kept = draft.reserved.get(fit.pool.spec.name, {})
        self.free: dict[str, list[int]] = {}
        self.room: dict[str, int] = {}
        self.in_domain: dict[str, int] = {}
        least = self.gpus if self.pool.spec.gpus_per_node else 0
        for node in self.pool.tightest_first(least):
            self._count(node, count_fitting_tasks(node, group, 1 << 30))

    def gain(self, task: Task) -> None:
        """A task ends, and its node has room for more."""
        node = self.pool.by_id.get(task.node)
        if self.domain is not None or node is None or not node.is_open or not self._suits(node):
            return
        free = self.free.get(node.id)
        if free is None:
            free = [
                node.free_gpus,
                node.cpu_free_milli,
                node.memory_free_mib,
                node.disk_free_mib,
            ]
            self.free[node.id] = free
        free[0] += len(task.gpus)
        free[1] += task.cpu_milli
        free[2] += task.memory_mib
        free[3] += task.disk_mib
        self._count(node, self._tasks(free))

    def _tasks(self, free: list[int]) -> int:
        group = self.group
        wanted = (self.gpus, group.cpu_milli, group.memory_mib, group.disk_mib)
        return min(
            (have // want for have, want in zip(free, wanted, strict=True) if want), default=0
        )

    def _count(self, node: NodeState, tasks: int) -> None:
        """``domain`` is the first that has room for the whole gang."""
        if not self._suits(node):
            return
        spread = self.constraints.spread
        if spread is not None and spread.level == NODE_LEVEL:
            tasks = min(tasks, spread.max_tasks)
        before = self.room.get(node.id, 0)
        domain = node.labels.get(self.level, "") if self.level else ""
        if tasks > before:
            self.room[node.id] = tasks
            self.in_domain[domain] = self.in_domain.get(domain, 0) + tasks - before
            if self.domain is None and self.in_domain[domain] >= self.count:
                self.domain = domain

    def _suits(self, node: NodeState) -> bool:
        labels = self.constraints.node_labels
        return node.id not in self.kept and all(node.labels.get(k) == v for k, v in labels)

    def nodes(self) -> tuple[str, ...]:
        """The nodes to keep: roomiest first, so that few are kept."""
        chosen: list[str] = []
        count = self.count
        for node_id, tasks in sorted(self.room.items(), key=lambda one: (-one[1], one[0])):
            node = self.pool.by_id[node_id]
            if count > 0 and (not self.level or node.labels.get(self.level, "") == self.domain):
                chosen.append(node_id)
                count -= tasks
        return tuple(sorted(chosen))


def plan_start(draft: Draft, head: JobRecord, fit: PoolFit) -> Reservation | None:
    """The earliest start that the expected ends allow, by room and by quota; None when they never do.

    Only whole GPUs and plain tasks are planned for: parts of GPUs come and go too fast, and are too
    small, to be worth keeping a node empty for. Nor is for a mixed gang that must be in one domain.
    """
    topology = fit.plan.shape.constraints.topology
    if fit.anchors is not None and topology is not None and topology.required is not None:
        return None
    outlooks: list[_Outlook] = []
    for part, counts in fit.parts(fit.min_counts):
        group, count = _largest(fit, counts)
        if group.gpu is not None and not isinstance(group.gpu, WholeGpus):
            return None
        outlooks.append(_Outlook(draft, part, group, count))
    mark = draft.journal.mark
    try:
        return _replay_ends(draft, head, fit, outlooks)
    finally:
        draft.journal.roll_back(mark)


def _largest(fit: PoolFit, counts: Counts) -> tuple[TaskGroup, int]:
    """The group with the most GPUs, and how many tasks it has."""
    return max(
        zip(fit.plan.groups, counts, strict=True),
        key=lambda one: (one[0].gpu.count if isinstance(one[0].gpu, WholeGpus) else 0) * one[1],
    )


def _replay_ends(
    draft: Draft, head: JobRecord, fit: PoolFit, outlooks: list[_Outlook]
) -> Reservation | None:
    """Let running jobs end, one by one, until the head has both its room and its quota."""
    quota, queue = draft.state.quota, head.spec.queue
    request = fit.request(fit.min_counts)
    outlook = outlooks[0]
    for end_ms, owner, tasks, its_request in _ends_of(draft, fit):
        draft.journal.credit(quota, owner, its_request)
        for task in tasks:
            for one in outlooks:
                one.gain(task)
        if all(one.domain is not None for one in outlooks) and quota.fits(queue, request):
            return Reservation(
                job_id=head.id,
                queue=queue,
                pool=fit.pool.spec.name,
                at_ms=max(end_ms, draft.now_ms + OVERDUE_MS),
                nodes=outlook.nodes(),
                slack={fr: quota.available(queue, fr) - n for fr, n in request.items()},
                beside=("", ()) if fit.anchors is None else (fit.anchors.name, outlooks[1].nodes()),
            )
    return None


def _ends_of(draft: Draft, fit: PoolFit) -> Iterator[End]:
    """Expected ends in the pool of a fit, and in that of its anchors."""
    if fit.anchors is None:
        return _ends(draft, fit.pool)
    both = (_ends(draft, fit.pool), _ends(draft, fit.anchors.pool))
    return heapq.merge(*both, key=lambda end: end[0])


def _ends(draft: Draft, pool: PoolState) -> Iterator[End]:
    """Expected ends in a pool, earliest first, those started in this cycle included."""
    started = sorted(draft.started_ends.get(pool.spec.name, ()), key=lambda end: end[0])
    return heapq.merge(_running_ends(draft, pool), started, key=lambda end: end[0])


def _running_ends(draft: Draft, pool: PoolState) -> Iterator[End]:
    for end_ms, job_id in pool.ends:
        record = draft.state.jobs[job_id]
        placement = record.placement
        if placement is None or job_id in draft.victims:
            continue
        if placement.anchors is None:
            yield end_ms, record.spec.queue, placement.tasks, record.request
        elif (part := placement.part_in(pool.spec.name)) is not None:
            request = request_in_flavor(record.request, part.flavor)
            yield end_ms, record.spec.queue, part.tasks, request


def add_reservation(draft: Draft, planned: Reservation) -> None:
    """From now on in this cycle, nobody who ends after the planned start gets in its way."""
    for pool, nodes in ((planned.pool, planned.nodes), planned.beside):
        if nodes:
            kept = draft.reserved.setdefault(pool, {})
            for node_id in nodes:
                kept[node_id] = min(planned.at_ms, kept.get(node_id, planned.at_ms))
    draft.planned.append(planned)
    draft.slack.append(dict(planned.slack))


def reservation_at_risk(
    draft: Draft, record: JobRecord, request: Mapping[FlavorResource, int]
) -> Reservation | None:
    """The planned start that would lack quota if this job ran past it, if any.

    A tenant within its own quota takes nothing that another could count on, so only those who borrow,
    and those of the planned job's own queue, can be in the way.
    """
    quota, queue = draft.state.quota, record.spec.queue
    end_ms = draft.now_ms + record.run_ms
    for planned, slack in zip(draft.planned, draft.slack, strict=True):
        if end_ms <= planned.at_ms or quota.root(queue) != quota.root(planned.queue):
            continue
        for fr, amount in request.items():
            short = amount > slack.get(fr, amount)
            if short and (queue == planned.queue or quota.is_borrowing(queue, fr, amount)):
                return planned
    return None


def spend_slack(draft: Draft, record: JobRecord, request: Mapping[FlavorResource, int]) -> None:
    """A job that outlasts planned starts was started: less quota is left beside them."""
    end_ms = draft.now_ms + record.run_ms
    for planned, slack in zip(draft.planned, draft.slack, strict=True):
        if end_ms > planned.at_ms:
            for fr, amount in request.items():
                if fr in slack:
                    slack[fr] = max(0, slack[fr] - amount)
