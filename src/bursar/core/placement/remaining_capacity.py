"""Ranks nodes by how much capacity a task takes from future tasks.

The capacity of a task shape is the free GPU time it could use: on GPUs of a model it accepts, with enough
free on one node, and as far as the CPU suffices. A start takes capacity from many shapes at once. The loss
of each counts by how frequent the shape is, and counts more the less of the fleet could serve it: a task
that runs on one model only, or needs eight GPUs of one node, has few alternatives.

It differs from fragmentation (``fragmentation.py``) in three points. CPU counts by how many tasks it suffices
for, not only by whether one fits. Shapes that few nodes can serve weigh more. Ties go to the fullest node.
"""

from __future__ import annotations

from bisect import bisect_left

from bursar.core.nodes.workload_mix import FreeResources, TaskShape, WorkloadMix
from bursar.core.placement.fragmentation import MOST_SCORES, MixScorer, after, parts_for
from bursar.model.units import MILLI

STEP_MILLI = 20
"""Losses are compared in steps of this: for smaller differences packing matters more."""
SCARCEST_PERCENT = 1
"""A shape is assumed to be served by at least this percentage of the fleet."""
STAKE_UNIT = 1_000

Want = tuple[int, int, int, int, tuple[tuple[int, int], ...]]
"""A GPU request (GPUs, fraction of each), the most CPU and the total stake of its shapes, and the CPU
(ascending) and stake of each of them."""


class RemainingCapacity(MixScorer):
    """The capacity that each start takes from future tasks."""

    def __init__(self, mix: WorkloadMix) -> None:
        super().__init__(mix)
        self._wants: dict[str, tuple[Want, ...]] = {}
        self._enough: dict[str, tuple[int, int]] = {}
        self._stake: tuple[tuple[TaskShape, int], ...] = ()
        self._capacity: dict[tuple[str, int, tuple[int, ...], int], int] = {}

    def rank(self, free: FreeResources, shape: TaskShape) -> tuple[int, int] | None:
        """The capacity one task takes, in steps, then what is free; None if it does not fit."""
        if not free.has_capacity_for(shape):
            return None
        before = self.capacity(free)
        if not shape.is_share:
            taken = before - self.capacity(after(free, 0, shape))
        else:
            parts = parts_for(free, shape)
            taken = before - max(self.capacity(after(free, part, shape)) for part in parts)
        return taken // (STEP_MILLI * STAKE_UNIT), free.gpu_milli << 32 | free.cpu_milli

    def gpu_rank(self, free: FreeResources, part: int, shape: TaskShape) -> int:
        """The cost of a GPU with this free fraction for a share."""
        return -self.capacity(after(free, part, shape))

    def capacity(self, free: FreeResources) -> int:
        """The milli-GPU that each shape could use here, times its stake; stakes add up to one unit."""
        if self._version != self._mix.version:
            self._renew()
        model, whole, parts = free.model, free.whole, free.parts
        wants = self._wants.get(model)
        if wants is None:
            wants = self._find_wants(model)
        most, each_gpu = self._enough[model]
        here = whole * MILLI + sum(parts)
        cpu_milli = min(free.cpu_milli, max(most, each_gpu * here // MILLI))
        key = (model, whole, parts, cpu_milli)
        capacity = self._capacity.get(key)
        if capacity is None:
            if len(self._capacity) >= MOST_SCORES:
                self._capacity.clear()
            capacity = self._capacity[key] = _usable_capacity(wants, whole, parts, cpu_milli)
        return capacity

    def _renew(self) -> None:
        """Compute each shape's stake: its frequency over the fraction of GPUs that could serve it."""
        self._version = self._mix.version
        self._wants, self._enough, self._capacity = {}, {}, {}
        empty_nodes = self._mix.empty_nodes
        gpu_milli = sum(free.gpu_milli * nodes for free, nodes in empty_nodes)
        stakes: list[tuple[TaskShape, int]] = []
        for shape, count in self._mix.shapes:
            if not shape.gpus:
                continue
            served = sum(nodes * _served(free, shape) for free, nodes in empty_nodes)
            least = max(1, gpu_milli * SCARCEST_PERCENT // 100)
            stakes.append((shape, count * STAKE_UNIT * max(1, gpu_milli) // max(least, served)))
        total = sum(stake for _, stake in stakes) or 1
        self._stake = tuple((shape, stake * STAKE_UNIT // total) for shape, stake in stakes)

    def _find_wants(self, model: str) -> tuple[Want, ...]:
        """The GPU requests for a model, and the CPU beyond which more makes no difference."""
        wanted: dict[tuple[int, int], dict[int, int]] = {}
        most = each_gpu = 0
        for shape, stake in self._stake:
            if shape.models and model not in shape.models:
                continue
            by_cpu = wanted.setdefault((shape.gpus, shape.each_milli), {})
            by_cpu[shape.cpu_milli] = by_cpu.get(shape.cpu_milli, 0) + stake
            most = max(most, shape.cpu_milli)
            each_gpu = max(each_gpu, -(-shape.cpu_milli * MILLI // shape.gpu_milli))
        self._enough[model] = (most, each_gpu)
        wants = tuple(
            (*need, max(cpus), sum(cpus.values()), tuple(sorted(cpus.items())))
            for need, cpus in sorted(wanted.items())
        )
        self._wants[model] = wants
        return wants


def _served(free: FreeResources, shape: TaskShape) -> int:
    """The milli-GPU of an empty node that a shape could use."""
    if shape.models and free.model not in shape.models:
        return 0
    cpu = shape.cpu_milli
    want = (shape.gpus, shape.each_milli, cpu, 1, ((cpu, 1),))
    return _usable_capacity((want,), free.whole, free.parts, free.cpu_milli)


def _usable_capacity(
    wants: tuple[Want, ...], whole: int, parts: tuple[int, ...], cpu_milli: int
) -> int:
    """Usable milli-GPU times stake: half by GPUs alone, half by GPUs and CPU, which may be freed."""
    total = 0
    here = whole * MILLI + sum(parts)
    count = whole + len(parts)
    for gpus, each_milli, most_cpu, all_stake, kinds in wants:
        small = bisect_left(parts, each_milli) if parts else 0
        if count - small < gpus:
            continue
        usable = here - sum(parts[:small]) if small else here
        task_milli = gpus * each_milli
        if most_cpu <= cpu_milli and most_cpu * usable <= cpu_milli * task_milli:
            total += 2 * all_stake * usable
            continue
        for cpu, stake in kinds:
            if cpu > cpu_milli:
                break
            lasting = cpu_milli * task_milli // cpu if cpu else usable
            total += stake * (usable + (lasting if lasting < usable else usable))
    return total // 2
