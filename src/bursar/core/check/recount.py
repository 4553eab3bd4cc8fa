"""What is held on the nodes that decisions touch, counted anew from the placements of their holders.

Nothing here reads a free amount that the scheduler keeps: a node's holders lead to their jobs, a job
to its placement, and the placement says what is held. Only nodes that are asked for are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bursar.core.nodes.node import FOREIGN, NodeState
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import Layout, MigInstance
from bursar.model.jobs.attempt import ShareUse, Task
from bursar.model.jobs.job import JobSpec


class DeviceCount:
    """One GPU: how it is cut, and everyone on it."""

    __slots__ = ("healthy", "layout", "shares", "slices", "whole")

    def __init__(self, layout: Layout, healthy: bool) -> None:
        self.layout = layout
        self.healthy = healthy
        self.whole: tuple[str, ...] = ()
        self.slices: tuple[tuple[MigInstance, str], ...] = ()
        self.shares: tuple[tuple[ShareUse, str], ...] = ()

    def held_whole_or_shared(self) -> Iterator[tuple[str, str]]:
        """Holders whose use rules out any slice, with what they hold, in words."""
        for holder in self.whole:
            yield holder, "all"
        for share, holder in self.shares:
            yield holder, f"{share.percent} %"

    def held_whole_or_cut(self) -> Iterator[tuple[str, str]]:
        """Holders whose use rules out any share, with what they hold, in words."""
        for holder in self.whole:
            yield holder, "all"
        for instance, holder in self.slices:
            yield holder, str(instance)

    def held(self) -> Iterator[tuple[str, str]]:
        """Everyone on the GPU, with what they hold, in words."""
        yield from self.held_whole_or_shared()
        for instance, holder in self.slices:
            yield holder, str(instance)


class NodeCount:
    """One node: what its holders take of it together, and for whom it is kept."""

    __slots__ = (
        "cpu_milli",
        "devices",
        "disk_mib",
        "kept_for",
        "memory_mib",
        "node",
        "size",
        "spec",
        "tags",
    )

    def __init__(self, node: NodeState, spec: Pool) -> None:
        self.node = node
        self.spec = spec
        self.size = len(node.devices)
        self.devices: dict[int, DeviceCount] = {}
        self.cpu_milli = 0
        self.memory_mib = 0
        self.disk_mib = 0
        self.tags: dict[str, set[str]] = {}
        self.kept_for = node.closed_for

    def device(self, gpu: int) -> DeviceCount | None:
        """A GPU of the node, written down when it is first asked for; None if there is no such GPU."""
        found = self.devices.get(gpu)
        if found is None and 0 <= gpu < self.size:
            kept = self.node.devices[gpu]
            found = self.devices[gpu] = DeviceCount(kept.layout, kept.healthy)
        return found

    def add(self, task: Task, holder: str) -> None:
        """Count what is held already; a device that does not exist holds nothing."""
        for gpu in task.gpus:
            device = self.device(gpu)
            if device is not None:
                device.whole += (holder,)
        for use in task.slices:
            device = self.device(use.gpu)
            if device is not None:
                device.slices += ((use.instance, holder),)
        for share in task.shares:
            device = self.device(share.gpu)
            if device is not None:
                device.shares += ((share, holder),)
        self.add_amounts(task)

    def add_amounts(self, task: Task) -> None:
        self.cpu_milli += task.cpu_milli
        self.memory_mib += task.memory_mib
        self.disk_mib += task.disk_mib

    def tag(self, spec: JobSpec, holder: str) -> None:
        """Remember who wants to be apart from others of its tag."""
        if spec.constraints.apart is not None:
            self.tags.setdefault(spec.constraints.apart, set()).add(holder)


class RecountedNodes:
    """The counted nodes, as they are after the orders replayed so far."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._counts: dict[str, NodeCount] = {}
        self._placed: dict[str, dict[str, list[Task]]] = {}
        self._given: dict[str, list[tuple[Task, str]]] = {}

    def count(self, node_id: str) -> NodeCount | None:
        """A node as it is now; nothing for a node that does not exist."""
        found = self._counts.get(node_id)
        if found is None:
            found = self._recount(node_id, ())
            if found is not None:
                self._counts[node_id] = found
        return found

    def count_without(self, node_id: str, leaving: Collection[str]) -> NodeCount | None:
        """A node as it will be when some of its holders have left and what was given has started."""
        now = self.count(node_id)
        later = self._recount(node_id, leaving)
        if now is None or later is None:
            return None
        for gpu, before in now.devices.items():
            after = later.device(gpu)
            if after is not None:
                after.layout = before.layout
        for task, job_id in self._given.get(node_id, ()):
            later.add(task, job_id)
            later.tag(self._state.jobs[job_id].spec, job_id)
        return later

    def note_given(self, task: Task, job_id: str) -> None:
        """A start that was replayed on its node."""
        self._given.setdefault(task.node, []).append((task, job_id))

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
        """The tasks of a running job by node; worked out once, as gangs are wide."""
        found = self._placed.get(holder)
        if found is None:
            found = self._placed[holder] = {}
            placement = self._state.jobs[holder].placement
            for task in placement.all_tasks if placement is not None else ():
                found.setdefault(task.node, []).append(task)
        return found
