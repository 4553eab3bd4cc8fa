"""Scores nodes by each placement policy.

Best fit, dot product and packing are the baselines of "Beware of Fragmentation" (USENIX ATC'23), as its
program implements them: amounts are relative to the largest node, memory is ignored, and ties go by node id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from bursar.core.nodes.node import NodeState
from bursar.core.nodes.node_index import Rank, Scorer
from bursar.core.nodes.workload_mix import (
    FreeResources,
    TaskShape,
    WorkloadMix,
    exact_shape_of,
    free_on,
)
from bursar.core.placement.fragmentation import Fragmentation
from bursar.core.placement.remaining_capacity import RemainingCapacity
from bursar.model.jobs.job import MpsShare, TaskGroup
from bursar.model.tenants.policy import PlacementPolicy
from bursar.model.units import MILLI

PERCENT = 100
FREE_NODE_POINTS, FREE_GPU_POINTS, SHARED_GPU_POINTS = 33, 50, 100
"""The highest score of packing for an empty node, free GPUs of a used node, and a shared GPU."""


class FirstFit:
    """The first node by id; shares go to the tightest GPU."""

    version = 0

    def __init__(self, mix: WorkloadMix) -> None:
        """``mix`` has the largest node."""
        empty = [free for free, _ in mix.current_empty_nodes()]
        self.most_cpu = max((free.cpu_milli for free in empty), default=0) or 1
        self.most_gpu = max((free.gpu_milli for free in empty), default=0) or 1

    def key(self, group: TaskGroup) -> TaskShape:
        return exact_shape_of(group)._replace(models=(), memory_mib=0)

    def rank(self, free: FreeResources, shape: TaskShape) -> Rank | None:
        return (0, 0) if free.has_capacity_for(shape) else None

    def gpu_rank(self, _free: FreeResources, part: int, _shape: TaskShape) -> int:
        return part


class _Scored(FirstFit, ABC):
    """Ranks by a score; ties by id."""

    def rank(self, free: FreeResources, shape: TaskShape) -> Rank | None:
        return (self.score(free, shape), 0) if free.has_capacity_for(shape) else None

    @abstractmethod
    def score(self, free: FreeResources, shape: TaskShape) -> int:
        """The cost of a node with capacity."""


class BestFit(_Scored):
    """The node with least left, CPU and GPU counting half each."""

    def score(self, free: FreeResources, shape: TaskShape) -> int:
        cpu_left = free.cpu_milli - shape.cpu_milli
        gpu_left = free.gpu_milli - shape.gpu_milli
        return cpu_left * self.most_gpu + gpu_left * self.most_cpu


class DotProduct(_Scored):
    """The node with the least product of request and free amounts, in steps of a percent (Tetris)."""

    def score(self, free: FreeResources, shape: TaskShape) -> int:
        cpu, gpu = self.most_cpu**2, self.most_gpu**2
        product = free.cpu_milli * shape.cpu_milli * gpu + free.gpu_milli * shape.gpu_milli * cpu
        return -(-PERCENT * product // (2 * cpu * gpu))


class Packing(_Scored):
    """Shared GPUs first, fullest first; then free GPUs of used nodes; then empty nodes."""

    def score(self, free: FreeResources, shape: TaskShape) -> int:
        if not shape.gpus:
            return 0
        if free.whole == free.gpus:
            return -max(FREE_NODE_POINTS - free.whole, free.whole)
        part = next((part for part in free.parts if part >= shape.each_milli), None)
        if not shape.is_share or part is None:
            return -max(FREE_GPU_POINTS - shape.gpus, FREE_NODE_POINTS)
        return -max(SHARED_GPU_POINTS - part * PERCENT // MILLI // 10, FREE_GPU_POINTS)


_SCORERS: Mapping[PlacementPolicy, Callable[[WorkloadMix], Scorer]] = {
    PlacementPolicy.REMAINING_CAPACITY: RemainingCapacity,
    PlacementPolicy.BEST_FIT: BestFit,
    PlacementPolicy.FIRST_FIT: FirstFit,
    PlacementPolicy.PACKING: Packing,
    PlacementPolicy.DOT_PRODUCT: DotProduct,
    PlacementPolicy.FRAGMENTATION_GRADIENT: Fragmentation,
    PlacementPolicy.RANDOM: FirstFit,
}
"""A random choice needs only the nodes with capacity, so it uses first fit."""


def scorer_for(policy: PlacementPolicy, mix: WorkloadMix) -> Scorer:
    """The policy's scorer over a mix, cached in the mix."""
    if mix.scorer is None or mix.scorer[0] is not policy:
        mix.scorer = (policy, _SCORERS[policy](mix))
    scorer: Scorer = mix.scorer[1]
    return scorer


def best_gpu(node: NodeState, group: TaskGroup, scorer: Scorer) -> int | None:
    """The best GPU of a node for an MPS share; None if it fits on none.

    Ties go to the fullest GPU, then to one that needs no repartition.
    """
    share = group.gpu
    if not isinstance(share, MpsShare):
        return None
    shape, free = scorer.key(group), free_on(node)
    best: tuple[int, int, bool, int] | None = None
    for gpu, device in enumerate(node.devices):
        part = free_milli_for(node, gpu, share)
        if part:
            rank = (scorer.gpu_rank(free, part, shape), part, bool(device.layout), gpu)
            if best is None or rank < best:
                best = rank
    return None if best is None else best[-1]


def free_milli_for(node: NodeState, gpu: int, share: MpsShare) -> int:
    """The free thousandths of a GPU if an MPS share fits there, else 0."""
    device = node.devices[gpu]
    if (node.blank | node.emptied) >> gpu & 1:
        return MILLI if share.memory_mib <= device.model.memory_mib else 0
    if device.can_share(share.percent, share.memory_mib):
        return device.free_percent * (MILLI // PERCENT)
    return 0
