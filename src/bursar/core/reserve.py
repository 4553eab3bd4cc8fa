"""Plan the start of a blocked gang from the expected ends of what runs, and keep its nodes for it.

Others may use the kept nodes until the planned start, never past it: that is what makes passing a
blocked job harmless. With one reservation this is EASY backfill, with K it is conservative for the
first K blocked kinds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from bursar.core.draft import Draft
from bursar.core.node import NodeState
from bursar.core.pool import NODE_LEVEL, PoolState
from bursar.core.search import tasks_beside
from bursar.core.shape import Counts, PoolFit
from bursar.model.attempt import Task
from bursar.model.job import TaskGroup, WholeGpus
from bursar.model.units import MINUTE_MS

OVERDUE_MS = MINUTE_MS
"""When a job is past its expected end, its end is expected this much from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStart:
    """When a gang should start, and the nodes kept for it."""

    pool: str
    at_ms: int
    nodes: tuple[str, ...]


class _Outlook:
    """How many tasks of a group each node will have room for, as running jobs end."""

    def __init__(self, draft: Draft, fit: PoolFit, group: TaskGroup) -> None:
        self.pool = fit.pool
        self.group = group
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
            self._count(node, tasks_beside(node, group, 1 << 30))

    def gain(self, task: Task) -> str | None:
        """A task ends; the domain that has more room for it, if any."""
        node = self.pool.by_id.get(task.node)
        if node is None or not node.is_open or not self._suits(node):
            return None
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
        return self._count(node, self._tasks(free))

    def _tasks(self, free: list[int]) -> int:
        group = self.group
        wanted = (self.gpus, group.cpu_milli, group.memory_mib, group.disk_mib)
        return min(
            (have // want for have, want in zip(free, wanted, strict=True) if want), default=0
        )

    def _count(self, node: NodeState, tasks: int) -> str | None:
        if not self._suits(node):
            return None
        spread = self.constraints.spread
        if spread is not None and spread.level == NODE_LEVEL:
            tasks = min(tasks, spread.max_tasks)
        before = self.room.get(node.id, 0)
        domain = node.labels.get(self.level, "") if self.level else ""
        if tasks > before:
            self.room[node.id] = tasks
            self.in_domain[domain] = self.in_domain.get(domain, 0) + tasks - before
        return domain

    def _suits(self, node: NodeState) -> bool:
        labels = self.constraints.node_labels
        return node.id not in self.kept and all(node.labels.get(k) == v for k, v in labels)

    def nodes_for(self, count: int, domain: str) -> tuple[str, ...]:
        """The nodes to keep: roomiest first, so that few are kept."""
        chosen: list[str] = []
        for node_id, tasks in sorted(self.room.items(), key=lambda one: (-one[1], one[0])):
            node = self.pool.by_id[node_id]
            if count > 0 and (not self.level or node.labels.get(self.level, "") == domain):
                chosen.append(node_id)
                count -= tasks
        return tuple(sorted(chosen))


def plan_start(draft: Draft, fit: PoolFit, counts: Counts) -> PlannedStart | None:
    """The earliest start that the expected ends allow; None when even all ends leave no room.

    Only whole GPUs and plain tasks are planned for: parts of GPUs come and go too fast, and are too
    small, to be worth keeping a node empty for.
    """
    group, count = max(
        zip(fit.plan.groups, counts, strict=True),
        key=lambda one: (one[0].gpu.count if isinstance(one[0].gpu, WholeGpus) else 0) * one[1],
    )
    if group.gpu is not None and not isinstance(group.gpu, WholeGpus):
        return None
    outlook = _Outlook(draft, fit, group)
    for end_ms, tasks in _ends(draft, fit.pool):
        for task in tasks:
            domain = outlook.gain(task)
            if domain is not None and outlook.in_domain.get(domain, 0) >= count:
                return PlannedStart(
                    pool=fit.pool.spec.name,
                    at_ms=max(end_ms, draft.now_ms + OVERDUE_MS),
                    nodes=outlook.nodes_for(count, domain),
                )
    return None


def _ends(draft: Draft, pool: PoolState) -> Iterator[tuple[int, tuple[Task, ...]]]:
    """Expected ends in a pool, earliest first, those started in this cycle included."""
    started = sorted(draft.started_ends.get(pool.spec.name, ()), key=lambda one: one[0])
    return heapq.merge(_running_ends(draft, pool), started, key=lambda one: one[0])


def _running_ends(draft: Draft, pool: PoolState) -> Iterator[tuple[int, tuple[Task, ...]]]:
    for end_ms, job_id in pool.ends:
        placement = draft.state.jobs[job_id].placement
        if placement is not None:
            yield end_ms, placement.tasks


def keep_nodes(draft: Draft, planned: PlannedStart, job_id: str) -> None:
    """From now on in this cycle, only jobs that end before the planned start use these nodes."""
    kept = draft.reserved.setdefault(planned.pool, {})
    for node_id in planned.nodes:
        kept[node_id] = min(planned.at_ms, kept.get(node_id, planned.at_ms))
    draft.planned.setdefault(planned.pool, []).append((planned.at_ms, job_id))
    draft.reservations += 1
