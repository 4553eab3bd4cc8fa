"""One node: what is free on it, and who holds the rest."""

from __future__ import annotations

from collections.abc import Mapping

from bursar.core.device import Device
from bursar.model.attempt import Task
from bursar.model.fleet import Node, Pool
from bursar.model.gpu import GpuMode

FOREIGN = "(foreign)"
"""The holder of what others run on a node of ours."""


class NodeState:
    """Free amounts and devices of one node, updated by each start and end.

    ``blank`` and ``emptied`` are bit masks over the GPUs: the idle ones, and those that carry a MIG
    layout without holders. Both can be taken whole, blank ones without a repartition.
    """

    __slots__ = (
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
        self.closed_for: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether something new may start here."""
        return self.up and self.closed_for is None

    def lowest_free_gpus(self, count: int) -> tuple[int, ...]:
        """The GPUs to take: blank ones first, because the others need a repartition."""
        found: list[int] = []
        for mask in (self.blank, self.emptied):
            while mask and len(found) < count:
                lowest = mask & -mask
                found.append(lowest.bit_length() - 1)
                mask ^= lowest
        return tuple(found)

    def occupy(self, task: Task, holder: str) -> None:
        """Give the devices and amounts of a task to a holder."""
        gpus = task.gpus
        if gpus:
            devices, blank = self.devices, self.blank
            for gpu in gpus:
                devices[gpu].take_whole(holder)
                blank &= ~(1 << gpu)
            self.blank = blank
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
            self.devices[use.gpu].release(holder, use.instance)
            self.refresh(use.gpu)
        for share in task.shares:
            self.devices[share.gpu].release_share(holder, share.percent, share.memory_mib)
            self.refresh(share.gpu)

    def vacate(self, task: Task, holder: str) -> None:
        """Undo ``occupy``."""
        devices = self.devices
        for gpu in task.gpus:
            device = devices[gpu]
            device.release_whole(holder)
            if device.healthy:
                self.blank |= 1 << gpu
                self.free_gpus += 1
        if task.slices or task.shares:
            self._vacate_parts(task, holder)
        self.cpu_free_milli += task.cpu_milli
        self.memory_free_mib += task.memory_mib
        self.disk_free_mib += task.disk_mib
        left = self.holders[holder] - 1
        if left:
            self.holders[holder] = left
        else:
            del self.holders[holder]

    def refresh(self, gpu: int) -> None:
        """Put a GPU whose mode may have changed into the right mask."""
        device = self.devices[gpu]
        bit = 1 << gpu
        self.blank &= ~bit
        self.emptied &= ~bit
        if device.healthy and device.mode is GpuMode.IDLE:
            self.blank |= bit
        elif device.healthy and device.is_vacant:
            self.emptied |= bit
        self.free_gpus = (self.blank | self.emptied).bit_count()
