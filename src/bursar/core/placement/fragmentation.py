"""Ranks nodes by how much a task increases fragmentation.

Free GPU capacity is unusable for a task that needs a larger fraction of one GPU, or more CPU with it, than
a node has free. A node's fragmentation is its unusable free GPU capacity, averaged over the fleet's
workload mix (F in "Beware of Fragmentation", USENIX ATC'23). A task goes where fragmentation grows least.

Growth is compared as in the paper's program, in steps of a percent of a sigmoid, and ties go by node id. Both
matter: without steps, or with random ties, the rule performs worse.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import floor, log

from bursar.core.nodes.workload_mix import FreeResources, TaskShape, WorkloadMix, shape_of
from bursar.model.jobs.job import TaskGroup
from bursar.model.units import MILLI

STEPS_MILLI = tuple(floor(MILLI * log((100 - k) / k)) + 1 for k in range(99, 0, -1))
"""Growth, rounded up, at which int(100 / (1 + exp(growth))) has fallen by one, growth in GPUs."""
MOST_SCORES = 1 << 17
"""A cache that reaches this size is cleared."""


def after(free: FreeResources, part: int, shape: TaskShape) -> FreeResources:
    """What is free after a task is placed; a share takes from a GPU with ``part`` free."""
    whole, parts = free.whole, free.parts
    if not shape.is_share:
        whole -= shape.gpus
    else:
        left = [*parts]
        if part < MILLI:
            del left[bisect_left(left, part)]
        else:
            whole -= 1
        if part > shape.each_milli:
            insort(left, part - shape.each_milli)
        parts = tuple(left)
    return FreeResources(
        free.model,
        free.gpus,
        whole,
        parts,
        free.cpu_milli - shape.cpu_milli,
        free.memory_mib - shape.memory_mib,
    )


def parts_for(free: FreeResources, shape: TaskShape) -> list[int]:
    """The distinct free fractions of GPUs that fit a share, smallest first."""
    parts = sorted({part for part in free.parts if part >= shape.each_milli})
    if free.whole:
        parts.append(MILLI)
    return parts


class MixScorer:
    """A scorer over the workload mix; ranks hold until the mix changes."""

    def __init__(self, mix: WorkloadMix) -> None:
        self._mix = mix
        self._version = -1

    @property
    def version(self) -> int:
        return self._mix.version

    def key(self, group: TaskGroup) -> TaskShape:
        return shape_of(group)._replace(models=(), memory_mib=0)


class Fragmentation(MixScorer):
    """The paper's measure over one mix; scores are cached until the mix changes."""

    def __init__(self, mix: WorkloadMix) -> None:
        super().__init__(mix)
        self._scores: dict[tuple[object, ...], int] = {}
        self._admitted: dict[tuple[str, int, int], tuple[tuple[tuple[int, int], int], ...]] = {}
        self._cpu_needs: list[int] = []
        self._memory_needs: list[int] = []

    def rank(self, free: FreeResources, shape: TaskShape) -> tuple[int, int] | None:
        """How many steps fragmentation grows with one task; None if it does not fit."""
        if not free.has_capacity_for(shape):
            return None
        if not self._mix.weight:
            return 0, 0
        if not shape.is_share:
            return self._steps(free, after(free, 0, shape)), 0
        return min(self._steps(free, after(free, p, shape)) for p in parts_for(free, shape)), 0

    def gpu_rank(self, free: FreeResources, part: int, shape: TaskShape) -> int:
        """The cost of a GPU with this free fraction for a share."""
        return self._steps(free, after(free, part, shape)) if self._mix.weight else 0

    def _steps(self, before: FreeResources, then: FreeResources) -> int:
        growth = self.fragments(then) - self.fragments(before)
        return bisect_right(STEPS_MILLI, -(-growth // self._mix.weight))

    def fragments(self, free: FreeResources) -> int:
        """The free milli-GPU that the mix cannot use, summed over its tasks (``weight``)."""
        if self._version != self._mix.version:
            self._renew()
        cpu = bisect_right(self._cpu_needs, free.cpu_milli)
        memory = bisect_right(self._memory_needs, free.memory_mib)
        key = (free.model, free.whole, free.parts, cpu, memory)
        score = self._scores.get(key)
        if score is None:
            if len(self._scores) >= MOST_SCORES:
                self._scores.clear()
            score = self._scores[key] = self._sum(free, (free.model, cpu, memory))
        return score

    def _sum(self, free: FreeResources, limits: tuple[str, int, int]) -> int:
        """Shapes without CPU, memory or a GPU of their model can use nothing of what is free."""
        admitted = self._admitted.get(limits)
        if admitted is None:
            admitted = self._admitted[limits] = self._admit(free)
        parts, here = free.parts, free.gpu_milli
        total = self._mix.weight * here
        for (gpus, each_milli), weight in admitted:
            small = bisect_left(parts, each_milli)
            if free.whole + len(parts) - small >= gpus:
                total -= weight * (here - sum(parts[:small]))
        return total

    def _admit(self, free: FreeResources) -> tuple[tuple[tuple[int, int], int], ...]:
        """The GPU requests of shapes that fit otherwise, with their numbers of tasks."""
        wanted: dict[tuple[int, int], int] = {}
        for shape, weight in self._mix.shapes:
            if (
                shape.gpus
                and shape.cpu_milli <= free.cpu_milli
                and shape.memory_mib <= free.memory_mib
                and (not shape.models or free.model in shape.models)
            ):
                need = (shape.gpus, shape.each_milli)
                wanted[need] = wanted.get(need, 0) + weight
        return tuple(sorted(wanted.items()))

    def _renew(self) -> None:
        shapes = self._mix.shapes
        self._cpu_needs = sorted({shape.cpu_milli for shape, _ in shapes})
        self._memory_needs = sorted({shape.memory_mib for shape, _ in shapes})
        self._scores = {}
        self._admitted = {}
        self._version = self._mix.version
