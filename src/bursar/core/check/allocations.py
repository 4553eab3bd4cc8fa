"""No GPU, MIG slice, MPS share, CPU, memory or disk is allocated twice."""

from __future__ import annotations

from bursar.core.check.fault import Fault
from bursar.core.check.mig_layouts import no_such_gpu, overlap, problem_of_layout
from bursar.core.check.recount import DeviceCount, NodeCount
from bursar.model.fleet.gpu import MigGeometry
from bursar.model.jobs.attempt import ShareUse, SliceUse, Task

WHOLE_PERCENT = 100


class AllocationReplay:
    """Allocates the tasks of one job on recounted nodes and collects the faults.

    A job that ``starts_now`` needs its GPUs partitioned already. For a claim, they may still be
    repartitioned once their holders have left.
    """

    def __init__(self, job_id: str, *, starts_now: bool) -> None:
        self.job_id = job_id
        self.starts_now = starts_now
        self.faults: list[Fault] = []

    def allocate(self, count: NodeCount, task: Task) -> None:
        """Allocates everything a task holds, and appends to ``faults``."""
        for gpu in task.gpus:
            device = self._device(count, gpu)
            if device is not None:
                self._allocate_whole(count, gpu, device)
        for use in task.slices:
            device = self._device(count, use.gpu)
            if device is not None:
                self._allocate_slice(count, use, device)
        for share in task.shares:
            device = self._device(count, share.gpu)
            if device is not None:
                self._allocate_share(count, share, device)
        count.add_amounts(task)
        self._compare_amounts(count, task)

    def _device(self, count: NodeCount, gpu: int) -> DeviceCount | None:
        device = count.device(gpu)
        if device is None:
            self.faults.append(no_such_gpu(count, gpu))
        elif not device.healthy:
            text = f"{self.job_id} is assigned GPU {gpu} of {count.node.id}, which is not healthy"
            self._add_fault("unhealthy-gpu", text)
        return device

    def _allocate_whole(self, count: NodeCount, gpu: int, device: DeviceCount) -> None:
        if device.whole or device.slices or device.shares:
            self._already_allocated(count, gpu, "all", next(device.held()))
        elif device.layout and self.starts_now:
            self._still_partitioned(count, gpu, "all", device)
        device.whole += (self.job_id,)

    def _allocate_slice(self, count: NodeCount, use: SliceUse, device: DeviceCount) -> None:
        geometry = None if count.spec.gpu_model is None else count.spec.gpu_model.mig
        conflict = next(device.held_whole_or_shared(), None) or next(
            (
                (holder, str(one))
                for one, holder in device.slices
                if overlap(geometry, one, use.instance)
            ),
            None,
        )
        if conflict is not None:
            self._already_allocated(count, use.gpu, str(use.instance), conflict)
        elif use.instance not in device.layout and not self._can_partition(use, device, geometry):
            layout = " ".join(str(one) for one in device.layout) or "not partitioned"
            self._add_fault(
                "layout-mismatch",
                f"{self.job_id} is assigned {use.instance} of GPU {use.gpu} of {count.node.id}, "
                f"whose layout is then: {layout}",
            )
        device.slices += ((use.instance, self.job_id),)

    def _can_partition(
        self, use: SliceUse, device: DeviceCount, geometry: MigGeometry | None
    ) -> bool:
        """Whether a claimed GPU can still get this instance, as no other job will be on it."""
        if self.starts_now or any(holder != self.job_id for _, holder in device.slices):
            return False
        layout = (*(one for one, _ in device.slices), use.instance)
        return not problem_of_layout(geometry, layout)

    def _allocate_share(self, count: NodeCount, share: ShareUse, device: DeviceCount) -> None:
        wanted = f"{share.percent} %"
        conflict = next(device.held_whole_or_sliced(), None)
        if conflict is not None:
            self._already_allocated(count, share.gpu, wanted, conflict)
        elif device.layout and self.starts_now:
            self._still_partitioned(count, share.gpu, wanted, device)
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
                self._add_fault(
                    "gpu-shares-exceeded",
                    f"with {self.job_id}, shares of GPU {gpu} of {count.node.id} add up to {used} "
                    f"{resource} of {limit}",
                )

    def _compare_amounts(self, count: NodeCount, task: Task) -> None:
        """Reports a resource that is over capacity only if this task uses some of it."""
        spec = count.spec
        amounts = (
            ("milli-CPU", task.cpu_milli, count.cpu_milli, spec.cpu_milli),
            ("MiB of memory", task.memory_mib, count.memory_mib, spec.memory_mib),
            ("MiB of disk", task.disk_mib, count.disk_mib, spec.disk_mib),
        )
        for resource, task_amount, used, capacity in amounts:
            if task_amount and used > capacity:
                self._add_fault(
                    "node-capacity-exceeded",
                    f"with {self.job_id}, {used} {resource} of {count.node.id} are in use; "
                    f"it has {capacity}",
                )

    def _already_allocated(
        self, count: NodeCount, gpu: int, wanted: str, conflict: tuple[str, str]
    ) -> None:
        holder, amount = conflict
        self._add_fault(
            "gpu-taken",
            f"{self.job_id} is assigned {wanted} of GPU {gpu} of {count.node.id}, "
            f"of which {holder} holds {amount}",
        )

    def _still_partitioned(
        self, count: NodeCount, gpu: int, wanted: str, device: DeviceCount
    ) -> None:
        layout = " ".join(str(one) for one in device.layout)
        self._add_fault(
            "gpu-still-partitioned",
            f"{self.job_id} is assigned {wanted} of GPU {gpu} of {count.node.id}, "
            f"which is still partitioned by MIG: {layout}",
        )

    def _add_fault(self, rule: str, text: str) -> None:
        self.faults.append(Fault(rule, self.job_id, text))
