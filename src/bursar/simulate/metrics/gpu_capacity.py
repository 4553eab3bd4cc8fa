"""GPUs over time: how many exist, are held, are free, and are free on partly used nodes."""

from __future__ import annotations

from bursar.core.quota.charge import MILLI_PER_PERCENT
from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.gpu import GpuModel, slice_milli
from bursar.model.jobs.attempt import Task
from bursar.model.units import MILLI
from bursar.simulate.metrics.time_integral import TimeIntegral


class GpuMeters:
    """Integrals over the fleet, in thousandths of a GPU.

    A partitioned or shared GPU counts as held by the fractions in use, and never as more than one,
    though the slices of a GPU can add up to a little more. Free GPUs are whole ones on nodes that
    accept jobs; ``scattered`` ones are on a node that is partly used. The caller maintains
    ``unallocated``: the free ones while jobs wait.
    """

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self.capacity = TimeIntegral()
        self.held = TimeIntegral()
        self.free = TimeIntegral()
        self.scattered = TimeIntegral()
        self.unallocated = TimeIntegral()
        self.touched: set[str] = set()
        self._fractions: dict[tuple[str, int], int] = {}
        self._free_on: dict[str, tuple[int, int]] = {}

    def recount(self, at_ms: int) -> None:
        """Counts the whole fleet again, at the start or after nodes changed."""
        pools = self._state.pools.values()
        gpus = sum(len(pool.nodes) * pool.spec.gpus_per_node for pool in pools)
        self.capacity.set(MILLI * gpus, at_ms)
        self.touched.update(self._state.pool_of_node)
        self.touched.update(self._free_on)

    # -- holding ---------------------------------------------------------------------------------

    def hold(self, task: Task, model: GpuModel | None, at_ms: int) -> int:
        """Counts a task's devices as held from now on; returns how much GPU it is charged for."""
        self.touched.add(task.node)
        whole = MILLI * len(task.gpus)
        if not task.slices and not task.shares:
            if whole:
                self.held.change(whole, at_ms)
            return whole
        fractions = _fractions_of(task, model)
        self._change_fractions(task.node, fractions, 1, whole, at_ms)
        return whole + sum(milli for _, milli in fractions)

    def release(self, task: Task, model: GpuModel | None, at_ms: int) -> None:
        """Undoes ``hold``."""
        self.touched.add(task.node)
        whole = MILLI * len(task.gpus)
        if not task.slices and not task.shares:
            if whole:
                self.held.change(-whole, at_ms)
            return
        self._change_fractions(task.node, _fractions_of(task, model), -1, -whole, at_ms)

    def _change_fractions(
        self, node: str, fractions: list[tuple[int, int]], sign: int, change: int, at_ms: int
    ) -> None:
        for gpu, milli in fractions:
            before = self._fractions.get((node, gpu), 0)
            after = before + sign * milli
            change += min(MILLI, after) - min(MILLI, before)
            if after:
                self._fractions[node, gpu] = after
            else:
                self._fractions.pop((node, gpu), None)
        self.held.change(change, at_ms)

    # -- free GPUs -------------------------------------------------------------------------------

    def update_free(self, at_ms: int) -> None:
        """Reads the free GPUs of the touched nodes from the state after a step."""
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


def _fractions_of(task: Task, model: GpuModel | None) -> list[tuple[int, int]]:
    """The GPUs of which a task holds a fraction, and that fraction in thousandths."""
    fractions = [(use.gpu, use.percent * MILLI_PER_PERCENT) for use in task.shares]
    if task.slices and model is not None and model.mig is not None:
        geometry = model.mig
        fractions += [(use.gpu, slice_milli(geometry, use.instance.profile)) for use in task.slices]
    return fractions
