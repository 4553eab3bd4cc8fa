"""GPUs over time: how many there are, how many are held, and how well the free ones lie together."""

from __future__ import annotations

from bursar.core.quota.charge import MILLI_PER_PERCENT
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.gpu import GpuModel, slice_milli
from bursar.model.jobs.attempt import Task
from bursar.model.units import MILLI
from bursar.simulate.metrics.time_integral import TimeIntegral


class GpuMeters:
    """Meters of the fleet, in thousandths of a GPU.

    A GPU that is cut or shared counts as held by the parts that are taken, and never as more than one,
    though the parts of a cut GPU can add up to a little more. Free GPUs are those that could be taken
    whole on a node that takes jobs; ``scattered`` ones share their node with somebody. The caller keeps
    ``unallocated``: the free ones while someone waits.
    """

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self.capacity = TimeIntegral()
        self.held = TimeIntegral()
        self.free = TimeIntegral()
        self.scattered = TimeIntegral()
        self.unallocated = TimeIntegral()
        self.touched: set[str] = set()
        self._parts: dict[tuple[str, int], int] = {}
        self._free_on: dict[str, tuple[int, int]] = {}

    def count_all(self, at_ms: int) -> None:
        """The fleet is new or has other nodes: look at all of it once."""
        pools = self._state.pools.values()
        gpus = sum(len(pool.nodes) * pool.spec.gpus_per_node for pool in pools)
        self.capacity.set(MILLI * gpus, at_ms)
        self.touched.update(self._state.pool_of_node)
        self.touched.update(self._free_on)

    # -- holding ---------------------------------------------------------------------------------

    def take(self, task: Task, model: GpuModel | None, at_ms: int) -> int:
        """A task holds its devices from now on; how much GPU it is charged for."""
        self.touched.add(task.node)
        whole = MILLI * len(task.gpus)
        if not task.slices and not task.shares:
            if whole:
                self.held.change(whole, at_ms)
            return whole
        parts = _parts_of(task, model)
        self._change_parts(task.node, parts, 1, whole, at_ms)
        return whole + sum(milli for _, milli in parts)

    def give(self, task: Task, model: GpuModel | None, at_ms: int) -> None:
        """Undo ``take``."""
        self.touched.add(task.node)
        whole = MILLI * len(task.gpus)
        if not task.slices and not task.shares:
            if whole:
                self.held.change(-whole, at_ms)
            return
        self._change_parts(task.node, _parts_of(task, model), -1, -whole, at_ms)

    def _change_parts(
        self, node: str, parts: list[tuple[int, int]], sign: int, change: int, at_ms: int
    ) -> None:
        for gpu, milli in parts:
            before = self._parts.get((node, gpu), 0)
            after = before + sign * milli
            change += min(MILLI, after) - min(MILLI, before)
            if after:
                self._parts[node, gpu] = after
            else:
                self._parts.pop((node, gpu), None)
        self.held.change(change, at_ms)

    # -- what is free ----------------------------------------------------------------------------

    def look_again(self, at_ms: int) -> None:
        """Look at the nodes that were touched, as they are after the step."""
        free = scattered = 0
        free_on, pool_of_node = self._free_on, self._state.pool_of_node
        for node_id in self.touched:
            was_free, was_scattered = free_on.get(node_id, (0, 0))
            now_free = now_scattered = 0
            pool = pool_of_node.get(node_id)
            if pool is not None:
                node = pool.by_id[node_id]
                if node.up:
                    now_free = node.free_gpus
                    now_scattered = now_free if now_free < pool.spec.gpus_per_node else 0
            free_on[node_id] = now_free, now_scattered
            free += now_free - was_free
            scattered += now_scattered - was_scattered
        self.touched.clear()
        if free:
            self.free.change(free * MILLI, at_ms)
        if scattered:
            self.scattered.change(scattered * MILLI, at_ms)


def _parts_of(task: Task, model: GpuModel | None) -> list[tuple[int, int]]:
    """The devices of which a task has a part, and how much of each, in thousandths."""
    parts = [(use.gpu, use.percent * MILLI_PER_PERCENT) for use in task.shares]
    if task.slices and model is not None and model.mig is not None:
        geometry = model.mig
        parts += [(use.gpu, slice_milli(geometry, use.instance.profile)) for use in task.slices]
    return parts
