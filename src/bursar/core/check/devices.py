"""No GPU, no slice, no share, no CPU, memory or disk is promised twice."""

from __future__ import annotations

from bursar.core.check.cuts import overlap, problem_of_layout
from bursar.core.check.device_faults import (
    DeviceFault,
    DeviceTaken,
    NoSuchGpu,
    NotCutSo,
    OverCapacity,
    OverShared,
    StillCut,
    UnhealthyGpu,
)
from bursar.core.check.ground import DeviceCount, NodeCount
from bursar.model.attempt import ShareUse, SliceUse, Task
from bursar.model.gpu import MigGeometry

WHOLE_PERCENT = 100


class Giver:
    """Gives the tasks of one job to counted nodes and notes what cannot be given.

    ``settled`` says that the job starts now: GPUs must be cut as it needs them already. For a place
    that is only kept, they may still be cut when those who hold them have left.
    """

    def __init__(self, job_id: str, *, settled: bool) -> None:
        self.job_id = job_id
        self.settled = settled
        self.faults: list[DeviceFault] = []

    def give(self, count: NodeCount, task: Task) -> None:
        """Take everything a task holds; what is wrong with it goes to ``faults``."""
        for gpu in task.gpus:
            device = self._device(count, gpu)
            if device is not None:
                self._give_whole(count, gpu, device)
        for use in task.slices:
            device = self._device(count, use.gpu)
            if device is not None:
                self._give_slice(count, use, device)
        for share in task.shares:
            device = self._device(count, share.gpu)
            if device is not None:
                self._give_share(count, share, device)
        count.add_amounts(task)
        self._compare_amounts(count, task)

    def _device(self, count: NodeCount, gpu: int) -> DeviceCount | None:
        device = count.device(gpu)
        if device is None:
            self.faults.append(NoSuchGpu(node=count.node.id, gpu=gpu, gpus=count.size))
        elif not device.healthy:
            self.faults.append(UnhealthyGpu(job_id=self.job_id, node=count.node.id, gpu=gpu))
        return device

    def _give_whole(self, count: NodeCount, gpu: int, device: DeviceCount) -> None:
        if device.whole or device.slices or device.shares:
            self._taken(count, gpu, "all", next(device.held()))
        elif device.layout and self.settled:
            self._still_cut(count, gpu, "all", device)
        device.whole += (self.job_id,)

    def _give_slice(self, count: NodeCount, use: SliceUse, device: DeviceCount) -> None:
        geometry = None if count.spec.gpu_model is None else count.spec.gpu_model.mig
        taken = next(device.held_whole_or_shared(), None) or next(
            (
                (holder, str(one))
                for one, holder in device.slices
                if overlap(geometry, one, use.instance)
            ),
            None,
        )
        if taken is not None:
            self._taken(count, use.gpu, str(use.instance), taken)
        elif use.instance not in device.layout and not self._can_be_cut(use, device, geometry):
            self.faults.append(
                NotCutSo(
                    job_id=self.job_id,
                    node=count.node.id,
                    gpu=use.gpu,
                    instance=use.instance,
                    layout=device.layout,
                )
            )
        device.slices += ((use.instance, self.job_id),)

    def _can_be_cut(self, use: SliceUse, device: DeviceCount, geometry: MigGeometry | None) -> bool:
        """Whether a kept place can still get this instance, once nobody else is on the GPU."""
        if self.settled or any(holder != self.job_id for _, holder in device.slices):
            return False
        wanted = (*(one for one, _ in device.slices), use.instance)
        return not problem_of_layout(geometry, wanted)

    def _give_share(self, count: NodeCount, share: ShareUse, device: DeviceCount) -> None:
        wanted = f"{share.percent} %"
        taken = next(device.held_whole_or_cut(), None)
        if taken is not None:
            self._taken(count, share.gpu, wanted, taken)
        elif device.layout and self.settled:
            self._still_cut(count, share.gpu, wanted, device)
        device.shares += ((share, self.job_id),)
        self._compare_shares(count, share.gpu, device)

    def _compare_shares(self, count: NodeCount, gpu: int, device: DeviceCount) -> None:
        model = count.spec.gpu_model
        sums = (
            ("%", sum(one.percent for one, _ in device.shares), WHOLE_PERCENT),
            (
                "MiB",
                sum(one.memory_mib for one, _ in device.shares),
                0 if model is None else model.memory_mib,
            ),
            ("clients", len(device.shares), count.spec.mps_client_limit),
        )
        for resource, used, limit in sums:
            if used > limit:
                self.faults.append(
                    OverShared(
                        job_id=self.job_id,
                        node=count.node.id,
                        gpu=gpu,
                        resource=resource,
                        used=used,
                        limit=limit,
                    )
                )

    def _compare_amounts(self, count: NodeCount, task: Task) -> None:
        """Too much of an amount is this job's fault only if it takes some of it."""
        spec = count.spec
        amounts = (
            ("milli-CPU", task.cpu_milli, count.cpu_milli, spec.cpu_milli),
            ("MiB of memory", task.memory_mib, count.memory_mib, spec.memory_mib),
            ("MiB of disk", task.disk_mib, count.disk_mib, spec.disk_mib),
        )
        for resource, taken, used, capacity in amounts:
            if taken and used > capacity:
                self.faults.append(
                    OverCapacity(
                        job_id=self.job_id,
                        node=count.node.id,
                        resource=resource,
                        used=used,
                        capacity=capacity,
                    )
                )

    def _taken(self, count: NodeCount, gpu: int, wanted: str, held: tuple[str, str]) -> None:
        self.faults.append(
            DeviceTaken(
                job_id=self.job_id,
                node=count.node.id,
                gpu=gpu,
                wanted=wanted,
                holder=held[0],
                held=held[1],
            )
        )

    def _still_cut(self, count: NodeCount, gpu: int, wanted: str, device: DeviceCount) -> None:
        self.faults.append(
            StillCut(
                job_id=self.job_id,
                node=count.node.id,
                gpu=gpu,
                wanted=wanted,
                layout=device.layout,
            )
        )
