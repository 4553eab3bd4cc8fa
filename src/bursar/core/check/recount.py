"""Recounts what is allocated on nodes from the placements of their holders.

The scheduler's own free amounts are not read: the count goes from a node's holders to their jobs, and
from a job to its placement. Only nodes that the decisions touch are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bursar.core.nodes.node import FOREIGN, NodeState
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import ShareUse, Task
from bursar.model.jobs.job import JobSpec

Use = MigInstance | ShareUse | None
"""What a job holds of a GPU: a MIG slice, an MPS share, or, as None, all of it."""


def uses_of(task: Task) -> Iterator[tuple[int, Use]]:
    """What a task holds of each GPU, with the GPU's number."""
    for gpu in task.gpus:
        yield gpu, None
    for use in task.slices:
        yield use.gpu, use.instance
    for share in task.shares:
        yield share.gpu, share


class DeviceCount:
    """One GPU: its MIG layout and what each holder has of it."""

    __slots__ = ("gpu", "healthy", "layout", "node", "uses")

    def __init__(self, node: NodeState, gpu: int) -> None:
        self.node = node
        self.gpu = gpu
        actual = node.devices[gpu]
        self.layout = actual.layout
        self.healthy = actual.healthy
        self.uses: list[tuple[str, Use]] = []

    def __str__(self) -> str:
        return f"GPU {self.gpu} of {self.node.id}"


class NodeCount:
    """One node: the sum of its allocations, and the job it is claimed for."""

    def __init__(self, node: NodeState, spec: Pool) -> None:
        self.node = node
        self.spec = spec
        self.size = len(node.devices)
        self.devices: dict[int, DeviceCount] = {}
        self.cpu_milli = 0
        self.memory_mib = 0
        self.disk_mib = 0
        self.tags: dict[str, set[str]] = {}
        self.claimed_for = node.closed_for

    def device(self, gpu: int) -> DeviceCount | None:
        """A GPU of the node, created on first use; None if the node has no such GPU."""
        device = self.devices.get(gpu)
        if device is None and 0 <= gpu < self.size:
            device = self.devices[gpu] = DeviceCount(self.node, gpu)
        return device

    def add(self, task: Task, holder: str) -> None:
        """Counts an existing allocation; GPUs that do not exist are ignored."""
        for gpu, use in uses_of(task):
            device = self.device(gpu)
            if device is not None:
                device.uses.append((holder, use))
        self.add_amounts(task)

    def add_amounts(self, task: Task) -> None:
        self.cpu_milli += task.cpu_milli
        self.memory_mib += task.memory_mib
        self.disk_mib += task.disk_mib

    def tag(self, spec: JobSpec, holder: str) -> None:
        """Records the anti-affinity tag of a job on this node."""
        if spec.constraints.apart is not None:
            self.tags.setdefault(spec.constraints.apart, set()).add(holder)


class RecountedNodes:
    """Recounted nodes, after the orders replayed so far."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._counts: dict[str, NodeCount] = {}
        self._tasks_by_holder: dict[str, dict[str, list[Task]]] = {}
        self._started: dict[str, list[tuple[Task, str]]] = {}

    def count(self, node_id: str) -> NodeCount | None:
        """The current count of a node; None if the node does not exist."""
        count = self._counts.get(node_id)
        if count is None:
            count = self._recount(node_id, ())
            if count is not None:
                self._counts[node_id] = count
        return count

    def count_without(self, node_id: str, leaving: Collection[str]) -> NodeCount | None:
        """The count of a node after some holders have left and the replayed starts are on it."""
        now = self.count(node_id)
        later = self._recount(node_id, leaving)
        if now is None or later is None:
            return None
        for gpu, before in now.devices.items():
            after = later.device(gpu)
            if after is not None:
                after.layout = before.layout
        for task, job_id in self._started.get(node_id, ()):
            later.add(task, job_id)
            later.tag(self._state.jobs[job_id].spec, job_id)
        return later

    def add_started(self, task: Task, job_id: str) -> None:
        """Records a start that was replayed on its node."""
        self._started.setdefault(task.node, []).append((task, job_id))

    def _recount(self, node_id: str, leaving: Collection[str]) -> NodeCount | None:
        pool = self._state.pool_of_node.get(node_id)
        if pool is None:
            return None
        count = NodeCount(pool.by_id[node_id], pool.spec)
        for holder in count.node.holders:
            if holder == FOREIGN:
                if count.node.foreign is not None:
                    count.add(count.node.foreign, FOREIGN)
            elif holder not in leaving and holder in self._state.jobs:
                for task in self._tasks_of(holder).get(node_id, ()):
                    count.add(task, holder)
                count.tag(self._state.jobs[holder].spec, holder)
        return count

    def _tasks_of(self, holder: str) -> dict[str, list[Task]]:
        """Tasks of a running job by node; cached, as gangs can span many nodes."""
        tasks = self._tasks_by_holder.get(holder)
        if tasks is None:
            tasks = self._tasks_by_holder[holder] = {}
            placement = self._state.jobs[holder].placement
            for task in placement.all_tasks if placement is not None else ():
                tasks.setdefault(task.node, []).append(task)
        return tasks
