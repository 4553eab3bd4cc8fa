"""What stopping a running job costs, and on which nodes that is least.

The victim search knows quota and eligibility; this module knows nodes. It finds the nodes on which the job's
capacity costs the least lost work, so that the search considers only the jobs on these, instead of emptying
the fleet in priority order until some node is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from bursar.core.nodes.node import NodeState
from bursar.core.placement.pool_fit import PoolFit
from bursar.core.preemption.evictable import is_leaving
from bursar.core.quota.charge import lost_micro_usd
from bursar.core.state.job_record import JobRecord, expected_gpu_ms
from bursar.model.jobs.attempt import Task
from bursar.model.jobs.job import TaskGroup, WholeGpus
from bursar.model.tenants.policy import VictimOrder

SPARE_NODES: Final = 4
"""Extra nodes offered to the search, because eligibility differs among victims."""

ONE: Final = 10**18
"""Large compared with any GPU time, so that fractions of it can be compared as integers."""


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
