"""Which part of a node a task takes: of its GPUs, its CPUs or its memory, whichever is largest.

The same rule by which ``core`` prices a placement, so that what was estimated is what is billed.
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

PARTS = 1_000_000_000
"""A whole node. A part is rounded down to a billionth: a tenth of a micro-dollar an hour at $100."""

PARTS_PER_MILLI = PARTS // MILLI
MILLI_PER_PERCENT = MILLI // 100


MOST_ALIKE = 8_192
"""So many different tasks are remembered: most of a day's are like one that was there before."""

Room = tuple[int, int, int]
"""What a node has: thousandths of CPUs, memory, GPUs."""


class SliceRule(StrEnum):
    """What part of its GPU a MIG slice counts as."""

    MAX = "max"
    """The larger of the two, as quota counts it: double memory must not look cheap."""
    COMPUTE = "compute"
    MEMORY = "memory"


Rates = tuple[int, int, int, int, int]
"""What somebody holds at one time, in the order of a volume: thousandths of GPUs and of CPUs, memory, the
part of the node, and the part it would be without sharing. One value, because all of it is multiplied by
time together, millions of times."""
PART = 3
"""Where the part of the node stands among the rates."""
NO_RATES: Rates = (0, 0, 0, 0, 0)


class TaskPart(NamedTuple):
    """What the tasks of one group hold on a node. ``beside`` is the part of CPUs or memory."""

    gpus: tuple[tuple[int, int], ...]
    """Thousandths of each GPU, by the GPU's number."""
    beside: int
    rates: Rates

    @property
    def part(self) -> int:
        return self.rates[PART]


def part_of(task: Task, shape: Pool, rule: SliceRule) -> TaskPart:
    """What a task takes of a node of this shape, with nobody else on it."""
    room = (shape.cpu_milli, shape.memory_mib, shape.gpus_per_node)
    if not task.slices and not task.shares:
        return _whole_part(task.gpus, task.cpu_milli, task.memory_mib, room)
    held = [(gpu, MILLI) for gpu in task.gpus]
    for use in task.slices:
        held.append((use.gpu, _slice_milli(shape.gpu_model, use.instance.profile, rule)))
    held.extend([(share.gpu, share.percent * MILLI_PER_PERCENT) for share in task.shares])
    return _part(tuple(held), task.cpu_milli, task.memory_mib, room)


@lru_cache(maxsize=MOST_ALIKE)
def _whole_part(gpus: tuple[int, ...], cpu_milli: int, memory_mib: int, room: Room) -> TaskPart:
    return _part(tuple([(gpu, MILLI) for gpu in gpus]), cpu_milli, memory_mib, room)


@lru_cache(maxsize=MOST_ALIKE)
def _part(
    held: tuple[tuple[int, int], ...], cpu_milli: int, memory_mib: int, room: Room
) -> TaskPart:
    room_cpu_milli, room_memory_mib, gpus = room
    gpu_milli = sum([milli for _, milli in held])
    beside = max(
        cpu_milli * PARTS // max(1, room_cpu_milli),
        memory_mib * PARTS // max(1, room_memory_mib),
    )
    whole = len(held) * PARTS // gpus if gpus else 0
    part = min(PARTS, max(beside, gpu_milli * PARTS // (gpus * MILLI) if gpus else 0))
    unshared = max(min(PARTS, beside), whole)
    return TaskPart(held, beside, (gpu_milli, cpu_milli, memory_mib, part, unshared))


def together(parts: Sequence[TaskPart]) -> Rates:
    """What several groups hold between them."""
    if len(parts) == 1:
        return parts[0].rates
    gpu_milli = cpu_milli = memory_mib = part = unshared = 0
    for one in parts:
        gpu, cpu, memory, taken, alone = one.rates
        gpu_milli += gpu
        cpu_milli += cpu
        memory_mib += memory
        part += taken
        unshared += alone
    return gpu_milli, cpu_milli, memory_mib, part, unshared


def squeezed_part(task: TaskPart, held_milli: Sequence[int], gpus_per_node: int) -> int:
    """The same where holders of one GPU have more than the GPU between them: each gives way in proportion.

    ``held_milli`` is what all holders have of each GPU together.
    """
    of_gpus = sum(
        milli * PARTS // (gpus_per_node * max(MILLI, held_milli[gpu])) for gpu, milli in task.gpus
    )
    return min(PARTS, max(task.beside, of_gpus))


class FreeCapacity(NamedTuple):
    """What nobody holds of a node."""

    gpus: tuple[int, ...]
    """Thousandths of each GPU."""
    cpu_milli: int
    memory_mib: int


def kept_of(task: TaskPart, free: FreeCapacity, shape: Pool) -> TaskPart:
    """What a task that is not there yet could take of what is free now."""
    gpus = tuple((gpu, min(milli, free.gpus[gpu])) for gpu, milli in task.gpus)
    gpu_milli = sum(milli for _, milli in gpus)
    _, asked_cpu_milli, asked_memory_mib, _, _ = task.rates
    cpu_milli = min(asked_cpu_milli, free.cpu_milli)
    memory_mib = min(asked_memory_mib, free.memory_mib)
    beside = max(
        cpu_milli * PARTS // max(1, shape.cpu_milli),
        memory_mib * PARTS // max(1, shape.memory_mib),
    )
    of_gpus = gpu_milli * PARTS // (shape.gpus_per_node * MILLI) if gpus else 0
    part = max(beside, of_gpus)
    return TaskPart(gpus, beside, (gpu_milli, cpu_milli, memory_mib, part, part))


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
    """Whole numbers that sum to the amount, in proportion; what is left goes to the largest remainders.

    Equal remainders are served in order. Weights that are all zero get nothing.
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
