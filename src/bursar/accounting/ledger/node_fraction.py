"""The fraction of a node that a task pays for: of its GPUs, CPUs or memory, the largest.

``core`` prices placements by the same rule, so estimate and bill agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import GpuModel, slice_milli
from bursar.model.jobs.attempt import Task
from bursar.model.units import MILLI

WHOLE_NODE = 1_000_000_000
"""Fractions are in billionths, rounded down: a tenth of a micro-dollar an hour at $100."""

BILLIONTHS_PER_MILLI = WHOLE_NODE // MILLI
MILLI_PER_PERCENT = MILLI // 100


CACHE_SIZE = 8_192
"""Most tasks of a day are identical to an earlier one."""

NodeCapacity = tuple[int, int, int]
"""Thousandths of CPUs, MiB of memory, GPUs."""


class SliceRule(StrEnum):
    """The fraction of its GPU that a MIG slice counts as."""

    MAX = "max"
    """The larger of compute and memory, as quota counts it: double memory must not look cheap."""
    COMPUTE = "compute"
    MEMORY = "memory"


Rates = tuple[int, int, int, int, int]
"""What a holder holds at one time, in the order of a ``Volume``: thousandths of GPUs and of CPUs, MiB of
memory, the fraction of the node, and that fraction if nothing were shared. One tuple, because all five are
multiplied by time together, millions of times."""
FRACTION = 3
"""Index of the node's fraction in the rates."""
NO_RATES: Rates = (0, 0, 0, 0, 0)


class TaskFraction(NamedTuple):
    """What the tasks of one group hold on a node."""

    gpus: tuple[tuple[int, int], ...]
    """Thousandths of each GPU, by the GPU's number."""
    cpu_or_memory: int
    """The larger of the node's CPU fraction and its memory fraction."""
    rates: Rates

    @property
    def fraction(self) -> int:
        return self.rates[FRACTION]


def fraction_of_node(task: Task, shape: Pool, rule: SliceRule) -> TaskFraction:
    """The fraction of an otherwise empty node of this shape that a task takes."""
    capacity = (shape.cpu_milli, shape.memory_mib, shape.gpus_per_node)
    if not task.slices and not task.shares:
        return _whole_gpu_fraction(task.gpus, task.cpu_milli, task.memory_mib, capacity)
    held = [(gpu, MILLI) for gpu in task.gpus]
    for use in task.slices:
        held.append((use.gpu, _slice_milli(shape.gpu_model, use.instance.profile, rule)))
    held.extend([(share.gpu, share.percent * MILLI_PER_PERCENT) for share in task.shares])
    return _fraction(tuple(held), task.cpu_milli, task.memory_mib, capacity)


@lru_cache(maxsize=CACHE_SIZE)
def _whole_gpu_fraction(
    gpus: tuple[int, ...], cpu_milli: int, memory_mib: int, capacity: NodeCapacity
) -> TaskFraction:
    return _fraction(tuple([(gpu, MILLI) for gpu in gpus]), cpu_milli, memory_mib, capacity)


@lru_cache(maxsize=CACHE_SIZE)
def _fraction(
    held: tuple[tuple[int, int], ...], cpu_milli: int, memory_mib: int, capacity: NodeCapacity
) -> TaskFraction:
    node_cpu_milli, node_memory_mib, gpus = capacity
    gpu_milli = sum([milli for _, milli in held])
    cpu_or_memory = max(
        cpu_milli * WHOLE_NODE // max(1, node_cpu_milli),
        memory_mib * WHOLE_NODE // max(1, node_memory_mib),
    )
    whole = len(held) * WHOLE_NODE // gpus if gpus else 0
    fraction = min(
        WHOLE_NODE, max(cpu_or_memory, gpu_milli * WHOLE_NODE // (gpus * MILLI) if gpus else 0)
    )
    unshared = max(min(WHOLE_NODE, cpu_or_memory), whole)
    return TaskFraction(held, cpu_or_memory, (gpu_milli, cpu_milli, memory_mib, fraction, unshared))


def sum_rates(fractions: Sequence[TaskFraction]) -> Rates:
    """The rates of several task groups together."""
    if len(fractions) == 1:
        return fractions[0].rates
    gpu_milli = cpu_milli = memory_mib = fraction = unshared = 0
    for task in fractions:
        gpu, cpu, memory, task_fraction, task_unshared = task.rates
        gpu_milli += gpu
        cpu_milli += cpu
        memory_mib += memory
        fraction += task_fraction
        unshared += task_unshared
    return gpu_milli, cpu_milli, memory_mib, fraction, unshared


def scaled_fraction(task: TaskFraction, held_milli: Sequence[int], gpus_per_node: int) -> int:
    """A task's fraction where holders oversubscribe a GPU: all are scaled down in proportion.

    ``held_milli`` is the sum over all holders, for each GPU.
    """
    gpu_fraction = sum(
        milli * WHOLE_NODE // (gpus_per_node * max(MILLI, held_milli[gpu]))
        for gpu, milli in task.gpus
    )
    return min(WHOLE_NODE, max(task.cpu_or_memory, gpu_fraction))


class FreeCapacity(NamedTuple):
    """Capacity of a node that has no holder."""

    gpus: tuple[int, ...]
    """Thousandths of each GPU."""
    cpu_milli: int
    memory_mib: int


def reservable_fraction(task: TaskFraction, free: FreeCapacity, shape: Pool) -> TaskFraction:
    """The part of a future task's request that the free capacity can satisfy now."""
    gpus = tuple((gpu, min(milli, free.gpus[gpu])) for gpu, milli in task.gpus)
    gpu_milli = sum(milli for _, milli in gpus)
    _, wanted_cpu_milli, wanted_memory_mib, _, _ = task.rates
    cpu_milli = min(wanted_cpu_milli, free.cpu_milli)
    memory_mib = min(wanted_memory_mib, free.memory_mib)
    cpu_or_memory = max(
        cpu_milli * WHOLE_NODE // max(1, shape.cpu_milli),
        memory_mib * WHOLE_NODE // max(1, shape.memory_mib),
    )
    gpu_fraction = gpu_milli * WHOLE_NODE // (shape.gpus_per_node * MILLI) if gpus else 0
    fraction = max(cpu_or_memory, gpu_fraction)
    return TaskFraction(gpus, cpu_or_memory, (gpu_milli, cpu_milli, memory_mib, fraction, fraction))


def _slice_milli(model: GpuModel | None, profile: str, rule: SliceRule) -> int:
    geometry = None if model is None else model.mig
    if geometry is None:
        return 0
    if rule is SliceRule.MAX:
        return slice_milli(geometry, profile)
    cut = geometry[profile]
    if rule is SliceRule.COMPUTE:
        return MILLI * cut.compute_slices // geometry.compute_slices
    return MILLI * cut.memory_slices // geometry.memory_slices


def largest_remainder(amount: int, weights: Sequence[int]) -> list[int]:
    """Splits an amount into whole numbers by weight; the rest goes to the largest remainders.

    Equal remainders are served in order. If all weights are zero, every share is zero.
    """
    total = sum(weights)
    if total <= 0:
        return [0] * len(weights)
    shares = [amount * weight // total for weight in weights]
    remainders = [amount * weight % total for weight in weights]
    order = sorted(range(len(weights)), key=remainders.__getitem__, reverse=True)
    for index in order[: amount - sum(shares)]:
        shares[index] += 1
    return shares
