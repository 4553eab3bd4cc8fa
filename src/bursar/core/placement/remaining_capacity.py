"""Place a task where it takes the least from the room that all kinds of tasks have left.

The room a kind of task has is the free GPU time it could use: on GPUs of a model it accepts, with enough
free in one place, and as far as the CPU beside them goes. A start takes room from many kinds at once. What
it takes from each counts by how often the kind comes, and the more the less of the fleet could ever
serve it: a task that runs on one model only, or needs eight GPUs side by side, has nowhere else to go.

It differs from fragmentation (``fragmentation.py``) in three points. CPU counts by how many tasks it
lasts for, not only by whether one still fits. Kinds that few nodes can serve weigh more. And nodes
that tie are taken fullest first, which needs no order among nodes to work.
"""

from __future__ import annotations

from bisect import bisect_left

from bursar.core.nodes.workload_mix import FreeResources, TaskShape, WorkloadMix, shape_of
from bursar.core.placement.fragmentation import MOST_SCORES, after, parts_for
from bursar.model.jobs.job import TaskGroup
from bursar.model.units import MILLI

STEP_MILLI = 20
"""What a start takes is compared in steps of this: smaller differences say less than packing does."""
SCARCEST_PERCENT = 1
"""A kind is never taken to be served by less of the fleet than this."""
STAKE_UNIT = 1_000

Want = tuple[int, int, int, int, tuple[tuple[int, int], ...]]
"""GPUs, the part of each; the most CPU and all the stake of the kinds that want them so; and the CPU
(ascending) and stake of each of those kinds."""


class RemainingCapacity:
    """What each start takes from the room of the tasks to come."""

    __slots__ = ("_enough", "_mix", "_room", "_stake", "_version", "_wants")

    def __init__(self, mix: WorkloadMix) -> None:
        self._mix = mix
        self._version = -1
        self._wants: dict[str, tuple[Want, ...]] = {}
        self._enough: dict[str, tuple[int, int]] = {}
        self._stake: tuple[tuple[TaskShape, int], ...] = ()
        self._room: dict[tuple[str, int, tuple[int, ...], int], int] = {}

    @property
    def version(self) -> int:
        return self._mix.version

    def key(self, group: TaskGroup) -> TaskShape:
        return shape_of(group)._replace(models=(), memory_mib=0)

    def rank(self, free: FreeResources, shape: TaskShape) -> tuple[int, int] | None:
        """What one task takes, in steps, then how much is free; None when there is no room for it."""
        if not free.has_capacity_for(shape):
            return None
        before = self.room(free)
        if not shape.is_share:
            taken = before - self.room(after(free, 0, shape))
        else:
            parts = parts_for(free, shape)
            taken = before - max(self.room(after(free, part, shape)) for part in parts)
        return taken // (STEP_MILLI * STAKE_UNIT), free.gpu_milli << 32 | free.cpu_milli

    def gpu_rank(self, free: FreeResources, part: int, shape: TaskShape) -> int:
        """How bad a GPU of which so much is free would be for a share."""
        return -self.room(after(free, part, shape))

    def room(self, free: FreeResources) -> int:
        """The milli-GPU that kinds could use here, each times its stake; stakes add up to one unit."""
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
        found = self._room.get(key)
        if found is None:
            if len(self._room) >= MOST_SCORES:
                self._room.clear()
            found = self._room[key] = _room_of(wants, whole, parts, cpu_milli)
        return found

    def _renew(self) -> None:
        """A kind's stake: how often it comes, over the part of the fleet's GPUs that could serve it."""
        self._version = self._mix.version
        self._wants, self._enough, self._room = {}, {}, {}
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
        """What is wanted of a GPU model; and the CPU beyond which more makes no difference to anyone."""
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
        found = tuple(
            (*need, max(cpus), sum(cpus.values()), tuple(sorted(cpus.items())))
            for need, cpus in sorted(wanted.items())
        )
        self._wants[model] = found
        return found


def _served(free: FreeResources, shape: TaskShape) -> int:
    """The milli-GPU of an empty node that a kind of task could use."""
    if shape.models and free.model not in shape.models:
        return 0
    cpu = shape.cpu_milli
    want = (shape.gpus, shape.each_milli, cpu, 1, ((cpu, 1),))
    return _room_of((want,), free.whole, free.parts, free.cpu_milli)


def _room_of(wants: tuple[Want, ...], whole: int, parts: tuple[int, ...], cpu_milli: int) -> int:
    """Half of it by GPUs alone, half as far as the CPU goes: CPU may be freed, and may not."""
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
