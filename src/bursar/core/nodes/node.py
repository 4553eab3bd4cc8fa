"""The state of one node: free amounts, devices and holders."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from bursar.core.nodes.device import Device
from bursar.model.event import ForeignUsageSeen
from bursar.model.fleet.fleet import Node, Pool
from bursar.model.fleet.gpu import GpuMode
from bursar.model.jobs.attempt import Task

FOREIGN: Final = "(foreign)"
"""The holder of usage that is not ours on a node."""


# Enum members are resolved by a method call; module constants are cheaper.
_IDLE, _WHOLE = GpuMode.IDLE, GpuMode.WHOLE

MOST_MASKS: Final = 4_096


@lru_cache(MOST_MASKS)
def _lowest(blank: int, emptied: int, count: int) -> tuple[int, ...]:
    """The lowest GPUs of the first mask, then of the second; few masks occur, so they are cached."""
    gpus: list[int] = []
    for mask in (blank, emptied):
        while mask and len(gpus) < count:
            lowest = mask & -mask
            gpus.append(lowest.bit_length() - 1)
            mask ^= lowest
    return tuple(gpus)


class NodeState:
    """Free amounts and devices of one node, updated by each start and end.

    ``blank`` and ``emptied`` are bit masks over the GPUs: the idle ones, and those with a MIG layout but no
    holder. Both can be taken whole, blank ones without a repartition.
    """

    __slots__ = (
        "avoided",
        "blank",
        "closed_for",
        "cpu_free_milli",
        "devices",
        "disk_free_mib",
        "emptied",
        "foreign",
        "free_gpus",
        "holders",
        "id",
        "labels",
        "memory_free_mib",
        "rank",
        "tags",
        "up",
    )

    def __init__(self, node: Node, pool: Pool) -> None:
        self.id = node.id
        self.rank = -1
        self.labels: Mapping[str, str] = {**pool.labels, **node.labels}
        self.devices = [
            Device(pool.gpu_model, mps_client_limit=pool.mps_client_limit)
            for _ in range(pool.gpus_per_node)
            if pool.gpu_model is not None
        ]
        self.cpu_free_milli = pool.cpu_milli
        self.memory_free_mib = pool.memory_mib
        self.disk_free_mib = pool.disk_mib
        self.blank = (1 << len(self.devices)) - 1
        self.emptied = 0
        self.free_gpus = len(self.devices)
        self.holders: dict[str, int] = {}
        self.tags: dict[str, int] = {}
        self.foreign: Task | None = None
        self.up = True
        self.avoided = False
        self.closed_for: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether a job may start here; an avoided node opens only when all others are full."""
        return self.up and not self.avoided and self.closed_for is None

    def lowest_free_gpus(self, count: int) -> tuple[int, ...]:
        """The GPUs to take: blank ones first, because the others need a repartition."""
        return _lowest(self.blank, self.emptied, count)

    def occupy(self, task: Task, holder: str) -> None:
        """Give the devices and amounts of a task to a holder.

        Whole GPUs are taken inline, as the device would, because this is hot; misuse still raises in the
        device.
        """
        gpus = task.gpus
        if gpus:
            devices, taken = self.devices, 0
            for gpu in gpus:
                device = devices[gpu]
                if device.mode is not _IDLE or not device.healthy:
                    device.take_whole(holder)
                device.mode = _WHOLE
                device.whole_holder = holder
                taken |= 1 << gpu
            self.blank &= ~taken
            self.free_gpus -= len(gpus)
        if task.slices or task.shares:
            self._occupy_parts(task, holder)
        self.cpu_free_milli -= task.cpu_milli
        self.memory_free_mib -= task.memory_mib
        self.disk_free_mib -= task.disk_mib
        holders = self.holders
        holders[holder] = holders.get(holder, 0) + 1

    def _occupy_parts(self, task: Task, holder: str) -> None:
        for use in task.slices:
            self.devices[use.gpu].take_slice(use.instance, holder)
            self.refresh(use.gpu)
        for share in task.shares:
            self.devices[share.gpu].take_share(holder, share.percent, share.memory_mib)
            self.refresh(share.gpu)

    def _vacate_parts(self, task: Task, holder: str) -> None:
        for use in task.slices:
            self.devices[use.gpu].release_slice(use.instance, holder)
            self.refresh(use.gpu)
        for share in task.shares:
            self.devices[share.gpu].release_share(holder, share.percent, share.memory_mib)
            self.refresh(share.gpu)

    def vacate(self, task: Task, holder: str) -> None:
        """Undo ``occupy``."""
        devices, freed = self.devices, 0
        for gpu in task.gpus:
            device = devices[gpu]
            if device.mode is not _WHOLE or device.whole_holder != holder:
                device.release_whole(holder)
            device.mode = _IDLE
            device.whole_holder = None
            if device.healthy:
                freed |= 1 << gpu
                self.free_gpus += 1
        self.blank |= freed
        if task.slices or task.shares:
            self._vacate_parts(task, holder)
        self.cpu_free_milli += task.cpu_milli
        self.memory_free_mib += task.memory_mib
        self.disk_free_mib += task.disk_mib
        remaining = self.holders[holder] - 1
        if remaining:
            self.holders[holder] = remaining
        else:
            del self.holders[holder]

    def refresh(self, gpu: int) -> None:
        """Update the masks for a GPU whose mode may have changed."""
        device = self.devices[gpu]
        bit = 1 << gpu
        self.blank &= ~bit
        self.emptied &= ~bit
        if device.healthy and device.mode is GpuMode.IDLE:
            self.blank |= bit
        elif device.healthy and device.is_vacant:
            self.emptied |= bit
        self.free_gpus = (self.blank | self.emptied).bit_count()


def foreign_task(event: ForeignUsageSeen, node: NodeState) -> Task:
    """Foreign usage of a node as a task; a GPU that is assigned to a job stays with it."""
    free = node.blank | node.emptied
    return Task(
        group=FOREIGN,
        node=event.node,
        count=1,
        gpus=tuple(gpu for gpu in sorted(set(event.gpus)) if free >> gpu & 1),
        cpu_milli=event.cpu_milli,
        memory_mib=event.memory_mib,
        disk_mib=event.disk_mib,
    )
