"""Plans the start of a blocked gang and reserves its nodes and quota.

The plan follows from the expected ends of running jobs. Other jobs may use the reserved nodes and quota until
the planned start, never longer, so backfill does not delay the blocked job. With one reservation this is EASY
backfill; with K it is conservative backfill for the first K blocked kinds.
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
"""A job past its expected end is expected to end this much from now."""


End = tuple[int, str, tuple[Task, ...], Mapping[FlavorResource, int]]
"""An expected end: its time, the queue, and the tasks and quota that are released."""


class _CapacityForecast:
    """How many tasks of a group fit on each node as running jobs end."""

    def __init__(self, draft: Draft, fit: PoolFit, group: TaskGroup, count: int) -> None:
        self.pool = fit.pool
        self.group = group
        self.count = count
        self.domain: str | None = None
        self.gpus = group.gpu.count if isinstance(group.gpu, WholeGpus) else 0
        self.constraints = fit.plan.shape.constraints
        topology = self.constraints.topology
        self.level = topology.required if topology is not None else None
        self.reserved = draft.reserved.get(fit.pool.spec.name, {})
        self.free: dict[str, list[int]] = {}
        self.tasks_by_node: dict[str, int] = {}
        self.tasks_by_domain: dict[str, int] = {}
        least = self.gpus if self.pool.spec.gpus_per_node else 0
        for node in self.pool.tightest_first(least):
            self._count(node, count_fitting_tasks(node, group, 1 << 30))

    def release(self, task: Task) -> None:
        """Count the capacity that the end of a task releases."""
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
        self._count(node, self._fitting_tasks(free))

    def _fitting_tasks(self, free: list[int]) -> int:
        group = self.group
        wanted = (self.gpus, group.cpu_milli, group.memory_mib, group.disk_mib)
        return min(
            (have // want for have, want in zip(free, wanted, strict=True) if want), default=0
        )

    def _count(self, node: NodeState, tasks: int) -> None:
        """Set the tasks that fit on a node; ``domain`` becomes the first that fits the whole gang."""
        if not self._suits(node):
            return
        spread = self.constraints.spread
        if spread is not None and spread.level == NODE_LEVEL:
            tasks = min(tasks, spread.max_tasks)
        before = self.tasks_by_node.get(node.id, 0)
        domain = node.labels.get(self.level, "") if self.level else ""
        if tasks > before:
            self.tasks_by_node[node.id] = tasks
            self.tasks_by_domain[domain] = self.tasks_by_domain.get(domain, 0) + tasks - before
            if self.domain is None and self.tasks_by_domain[domain] >= self.count:
                self.domain = domain

    def _suits(self, node: NodeState) -> bool:
        labels = self.constraints.node_labels
        return node.id not in self.reserved and all(node.labels.get(k) == v for k, v in labels)

    def nodes(self) -> tuple[str, ...]:
        """The nodes to reserve: those that fit most tasks first, so that few are needed."""
        chosen: list[str] = []
        count = self.count
        fitting = sorted(self.tasks_by_node.items(), key=lambda one: (-one[1], one[0]))
        for node_id, tasks in fitting:
            node = self.pool.by_id[node_id]
            if count > 0 and (not self.level or node.labels.get(self.level, "") == self.domain):
                chosen.append(node_id)
                count -= tasks
        return tuple(sorted(chosen))


def plan_start(draft: Draft, head: JobRecord, fit: PoolFit) -> Reservation | None:
    """The earliest start that expected ends allow, by capacity and quota; None if they never do.

    Only whole GPUs and tasks without GPUs are planned: GPU fractions change too often, and are too small, to
    reserve a node for. A mixed gang that must be in one domain is not planned either.
    """
    topology = fit.plan.shape.constraints.topology
    if fit.anchors is not None and topology is not None and topology.required is not None:
        return None
    forecasts: list[_CapacityForecast] = []
    for part, counts in fit.parts(fit.min_counts):
        group, count = _largest(fit, counts)
        if group.gpu is not None and not isinstance(group.gpu, WholeGpus):
            return None
        forecasts.append(_CapacityForecast(draft, part, group, count))
    mark = draft.journal.mark
    try:
        return _replay_ends(draft, head, fit, forecasts)
    finally:
        draft.journal.roll_back(mark)


def _largest(fit: PoolFit, counts: Counts) -> tuple[TaskGroup, int]:
    """The group with the most GPUs, and how many tasks it has."""
    return max(
        zip(fit.plan.groups, counts, strict=True),
        key=lambda one: (one[0].gpu.count if isinstance(one[0].gpu, WholeGpus) else 0) * one[1],
    )


def _replay_ends(
    draft: Draft, head: JobRecord, fit: PoolFit, forecasts: list[_CapacityForecast]
) -> Reservation | None:
    """Let running jobs end, one by one, until the head has both capacity and quota."""
    quota, queue = draft.state.quota, head.spec.queue
    request = fit.request(fit.min_counts)
    for end_ms, owner, tasks, ended_request in _ends_of(draft, fit):
        draft.journal.credit(quota, owner, ended_request)
        for task in tasks:
            for forecast in forecasts:
                forecast.release(task)
        if all(one.domain is not None for one in forecasts) and quota.fits(queue, request):
            return Reservation(
                job_id=head.id,
                queue=queue,
                pool=fit.pool.spec.name,
                at_ms=max(end_ms, draft.now_ms + OVERDUE_MS),
                nodes=forecasts[0].nodes(),
                slack={fr: quota.available(queue, fr) - n for fr, n in request.items()},
                anchor_nodes=("", ())
                if fit.anchors is None
                else (fit.anchors.name, forecasts[1].nodes()),
            )
    return None


def _ends_of(draft: Draft, fit: PoolFit) -> Iterator[End]:
    """Expected ends in the pools of a fit and its anchors, earliest first."""
    if fit.anchors is None:
        return _ends(draft, fit.pool)
    both = (_ends(draft, fit.pool), _ends(draft, fit.anchors.pool))
    return heapq.merge(*both, key=lambda end: end[0])


def _ends(draft: Draft, pool: PoolState) -> Iterator[End]:
    """Expected ends in a pool, earliest first, including jobs started in this cycle."""
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
    """Reserve nodes and quota: later starts of this cycle must end before the planned start."""
    for pool, nodes in ((planned.pool, planned.nodes), planned.anchor_nodes):
        if nodes:
            reserved = draft.reserved.setdefault(pool, {})
            for node_id in nodes:
                reserved[node_id] = min(planned.at_ms, reserved.get(node_id, planned.at_ms))
    draft.planned.append(planned)
    draft.slack.append(dict(planned.slack))


def reservation_at_risk(
    draft: Draft, record: JobRecord, request: Mapping[FlavorResource, int]
) -> Reservation | None:
    """The reservation that would lack quota if this job ran past its planned start, if any.

    A tenant within its own quota takes none of what another may use, so only jobs that borrow and jobs of the
    reservation's own queue put it at risk.
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
    """Reduce the quota slack of the reservations that a started job outlasts."""
    end_ms = draft.now_ms + record.run_ms
    for planned, slack in zip(draft.planned, draft.slack, strict=True):
        if end_ms > planned.at_ms:
            for fr, amount in request.items():
                if fr in slack:
                    slack[fr] = max(0, slack[fr] - amount)
