"""Counts the task shapes that a fleet receives.

Placement policies that avoid fragmentation use these counts to predict demand. They depend on submitted
jobs alone, so that a state rebuilt from its events makes the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from bursar.core.nodes.node import NodeState
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import GpuMode
from bursar.model.jobs.job import MpsShare, TaskGroup, WholeGpus
from bursar.model.tenants.policy import PlacementPolicy
from bursar.model.units import MILLI

MILLI_PER_PERCENT: Final = MILLI // 100

MOST_SHAPES: Final = 128
"""More shapes cost time in proportion and hardly change a choice."""
COVERED_PERCENT: Final = 95
"""The popular shapes make up this percentage of all tasks; rare ones only add noise."""
RENEW_AFTER_PERCENT: Final = 100
"""The shapes are renewed when the number of tasks has grown by this percentage."""
REMEMBERED_TASKS: Final = 1 << 16
"""At this number of tasks all counts are halved, so that old tasks weigh less."""
MOST_GROUPS: Final = 4_096
"""Cached shapes of groups; above this the cache is cleared."""


class TaskShape(NamedTuple):
    """What placement needs to know of a task; rounded down, so that shapes are few.

    ``each_milli`` is what it takes of each of ``gpus`` GPUs: all of it, or a fraction of one.
    """

    gpus: int
    each_milli: int
    cpu_milli: int
    memory_mib: int
    models: tuple[str, ...]

    @property
    def gpu_milli(self) -> int:
        return self.gpus * self.each_milli

    @property
    def is_share(self) -> bool:
        """Whether it takes a fraction of one GPU."""
        return 0 < self.each_milli < MILLI


class FreeResources(NamedTuple):
    """What is free on a node: whole GPUs, fractions of shared ones (ascending), CPU, memory.

    ``gpus`` is how many there are, in use or not.
    """

    model: str
    gpus: int
    whole: int
    parts: tuple[int, ...]
    cpu_milli: int
    memory_mib: int

    @property
    def gpu_milli(self) -> int:
        return self.whole * MILLI + sum(self.parts)

    def has_capacity_for(self, shape: TaskShape) -> bool:
        """Whether CPU and GPUs suffice for one task; the caller checks memory and disk."""
        if self.cpu_milli < shape.cpu_milli:
            return False
        if shape.is_share:
            return self.whole > 0 or (bool(self.parts) and self.parts[-1] >= shape.each_milli)
        return self.whole >= shape.gpus


def exact_shape_of(group: TaskGroup) -> TaskShape:
    """The shape of one task of a group, nothing rounded.

    A MIG slice needs a GPU without MPS clients, so it counts as a whole GPU.
    """
    cpu_milli, memory_mib = group.cpu_milli, group.memory_mib
    match group.gpu:
        case None:
            return TaskShape(0, 0, cpu_milli, memory_mib, ())
        case WholeGpus(count=count, models=models):
            return TaskShape(count, MILLI, cpu_milli, memory_mib, models)
        case MpsShare(percent=percent, models=models):
            return TaskShape(1, percent * MILLI_PER_PERCENT, cpu_milli, memory_mib, models)
        case slice_request:
            return TaskShape(1, MILLI, cpu_milli, memory_mib, slice_request.models)


def shape_of(group: TaskGroup) -> TaskShape:
    """The shape of one task of a group, rounded."""
    shape = exact_shape_of(group)
    return shape._replace(
        cpu_milli=_round_down(shape.cpu_milli), memory_mib=_round_down(shape.memory_mib)
    )


def _round_down(amount: int) -> int:
    """The last point of a grid whose steps are at most an eighth.

    Not the next: a task that wants all the CPU of a node must not look as if it never fitted there.
    """
    step = 1 << max(0, amount.bit_length() - 4)
    return amount // step * step


def free_on(node: NodeState) -> FreeResources:
    """What is free on a node, without MIG slices, which have their own index."""
    parts = [
        device.free_percent * MILLI_PER_PERCENT
        for device in node.devices
        if device.mode is GpuMode.MPS and device.healthy and device.accepts_client
    ]
    if parts:
        parts = sorted(part for part in parts if part)
    devices = node.devices
    return FreeResources(
        devices[0].model.name if devices else "",
        len(devices),
        node.free_gpus,
        tuple(parts),
        node.cpu_free_milli,
        node.memory_free_mib,
    )


def empty_node(spec: Pool) -> FreeResources:
    """What is free on an empty node of a pool."""
    model = spec.gpu_model.name if spec.gpu_model is not None else ""
    gpus = spec.gpus_per_node if model else 0
    return FreeResources(model, gpus, gpus, (), spec.cpu_milli, spec.memory_mib)


EmptyNodes = Callable[[], Iterable[tuple[FreeResources, int]]]
"""An empty node of each pool, and how many the pool has."""


def _no_nodes() -> Iterable[tuple[FreeResources, int]]:
    return ()


class WorkloadMix:
    """The task shapes that a fleet receives, with their counts.

    Counts change with every job; the ``shapes`` in use change only now and then, because every score
    depends on them. They depend on the calls of ``add`` alone, never on queries, and change only between
    instants, so that the order of simultaneous jobs makes no difference. ``empty_nodes`` are an empty node of
    each pool, and how many nodes the pool had when the shapes were chosen. ``scorer`` is cached by the
    placement policy (``node_scores.py``).
    """

    def __init__(self, empty_nodes: EmptyNodes = _no_nodes) -> None:
        self._counts: dict[TaskShape, int] = {}
        self._total = 0
        self._renew_at = 1
        self._at_ms: int | None = None
        self._list_empty_nodes = empty_nodes
        self._crowded: dict[str, bool] = {}
        self._shape_of: dict[int, tuple[TaskGroup, TaskShape]] = {}
        self.empty_nodes: tuple[tuple[FreeResources, int], ...] = ()
        self.shapes: tuple[tuple[TaskShape, int], ...] = ()
        self.weight = 0
        self.version = 0
        self.scorer: tuple[PlacementPolicy, Any] | None = None

    def add(self, group: TaskGroup, tasks: int, at_ms: int | None = None) -> None:
        """Count the tasks of one group of a submitted job."""
        if at_ms != self._at_ms and self._total >= self._renew_at:
            self._renew()
        self._at_ms = at_ms
        known = self._shape_of.get(id(group))
        shape = known[1] if known is not None else self._learn(group)
        self._counts[shape] = self._counts.get(shape, 0) + tasks
        self._total += tasks
        if at_ms is None and self._total >= self._renew_at:
            self._renew()

    def current_empty_nodes(self) -> tuple[tuple[FreeResources, int], ...]:
        """What the fleet has now."""
        return tuple(self._list_empty_nodes())

    def _learn(self, group: TaskGroup) -> TaskShape:
        """Jobs of one kind share their groups, so each group is computed once."""
        shape = shape_of(group)
        if not shape.gpus:
            shape = NO_GPU
        if len(self._shape_of) >= MOST_GROUPS:
            self._shape_of.clear()
        self._shape_of[id(group)] = (group, shape)
        return shape

    def crowds(self, spec: Pool) -> bool:
        """Whether tasks compete for more than whole GPUs on nodes of a pool.

        They do where GPUs are shared, and where CPU may run out before GPUs.
        """
        found = self._crowded.get(spec.name)
        if found is None:
            found = self._crowded[spec.name] = bool(spec.gpus_per_node) and any(
                _crowds(shape, spec) for shape, _ in self.shapes
            )
        return found

    def _renew(self) -> None:
        """Select the most popular shapes; every score must then be recomputed."""
        ranked = sorted(self._counts.items(), key=lambda one: (-one[1], one[0]))
        covered = 0
        popular: list[tuple[TaskShape, int]] = []
        for shape, count in ranked[:MOST_SHAPES]:
            popular.append((shape, count))
            covered += count
            if covered * 100 >= self._total * COVERED_PERCENT:
                break
        self.shapes = tuple(popular)
        self.weight = covered
        self.empty_nodes = self.current_empty_nodes()
        self._crowded = {}
        self.version += 1
        if self._total >= REMEMBERED_TASKS:
            self._counts = {shape: n // 2 for shape, n in self._counts.items() if n > 1}
            self._total = sum(self._counts.values())
        self._renew_at = self._total + max(1, self._total * RENEW_AFTER_PERCENT // 100)


NO_GPU: Final = TaskShape(0, 0, 0, 0, ())
"""Tasks without a GPU fragment none, so they count as one shape."""


def _crowds(shape: TaskShape, spec: Pool) -> bool:
    if not shape.gpus:
        return spec.cpu_milli > 0
    if shape.is_share:
        return True
    return shape.cpu_milli * spec.gpus_per_node > spec.cpu_milli * shape.gpus
