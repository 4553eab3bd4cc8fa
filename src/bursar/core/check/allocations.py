"""No GPU, no slice, no share, no CPU, memory or disk is promised twice."""

from __future__ import annotations

from bursar.core.check.fault import Fault
from bursar.core.check.mig_layouts import no_such_gpu, overlap, problem_of_layout
from bursar.core.check.recount import DeviceCount, NodeCount
from bursar.model.fleet.gpu import MigGeometry
from bursar.model.jobs.attempt import ShareUse, SliceUse, Task

WHOLE_PERCENT = 100


class AllocationReplay:
    """Gives the tasks of one job to counted nodes and notes what cannot be given.

    ``settled`` says that the job starts now: GPUs must be cut as it needs them already. For a place
    that is only kept, they may still be cut when those who hold them have left.
    """

    def __init__(self, job_id: str, *, settled: bool) -> None:
        self.job_id = job_id
        self.settled = settled
        self.faults: list[Fault] = []

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
            self.faults.append(no_such_gpu(count, gpu))
        elif not device.healthy:
            text = f"{self.job_id} is given GPU {gpu} of {count.node.id}, which is not healthy"
            self._note("unhealthy-gpu", text)
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
            layout = " ".join(str(one) for one in device.layout) or "not cut at all"
            self._note(
                "layout-mismatch",
                f"{self.job_id} is given {use.instance} of GPU {use.gpu} of {count.node.id}, "
                f"which is then cut otherwise: {layout}",
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
                self._note(
                    "gpu-shares-exceeded",
                    f"with {self.job_id}, shares of GPU {gpu} of {count.node.id} add up to {used} "
                    f"{resource} of {limit}",
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
                self._note(
                    "node-capacity-exceeded",
                    f"with {self.job_id}, {used} {resource} of {count.node.id} are in use; "
                    f"it has {capacity}",
                )

    def _taken(self, count: NodeCount, gpu: int, wanted: str, held: tuple[str, str]) -> None:
        holder, part = held
        self._note(
            "gpu-taken",
            f"{self.job_id} is given {wanted} of GPU {gpu} of {count.node.id}, "
            f"of which {holder} holds {part}",
        )

    def _still_cut(self, count: NodeCount, gpu: int, wanted: str, device: DeviceCount) -> None:
        layout = " ".join(str(one) for one in device.layout)
        self._note(
            "gpu-still-partitioned",
            f"{self.job_id} is given {wanted} of GPU {gpu} of {count.node.id}, "
            f"which is still cut by MIG: {layout}",
        )

    def _note(self, rule: str, text: str) -> None:
        self.faults.append(Fault(rule, self.job_id, text))
