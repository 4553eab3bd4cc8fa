"""No GPU, MIG slice, MPS share, CPU, memory or disk is allocated twice."""

from __future__ import annotations

from bursar.core.check.fault import Fault
from bursar.core.check.mig_layouts import no_such_gpu, overlap, problem_of_layout
from bursar.core.check.recount import DeviceCount, NodeCount, Use, uses_of
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import Layout, MigGeometry, MigInstance
from bursar.model.jobs.attempt import ShareUse, Task

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
        for gpu, use in uses_of(task):
            device = count.device(gpu)
            if device is None:
                self.faults.append(no_such_gpu(count, gpu))
            else:
                self._allocate_gpu(device, use, count.spec)
        count.add_amounts(task)
        self._compare_amounts(count, task)

    def _allocate_gpu(self, device: DeviceCount, use: Use, spec: Pool) -> None:
        if not device.healthy:
            text = f"{self.job_id} is assigned {device}, which is not healthy"
            self._add_fault("unhealthy-gpu", text)
        geometry = None if spec.gpu_model is None else spec.gpu_model.mig
        for holder, other in device.uses:
            if _are_exclusive(geometry, use, other):
                problem = f"of which {holder} holds {_write(other)}"
                self._add_misuse("gpu-taken", device, use, problem)
                break
        else:
            if device.layout or use is not None:
                self._compare_layout(device, use, geometry)
        device.uses.append((self.job_id, use))
        if isinstance(use, ShareUse):
            self._compare_shares(device, spec)

    def _compare_layout(self, device: DeviceCount, use: Use, geometry: MigGeometry | None) -> None:
        layout = device.layout
        if isinstance(use, MigInstance):
            if use not in layout and not self._can_partition(use, device, geometry):
                problem = f"whose layout is then: {_join(layout) or 'not partitioned'}"
                self._add_misuse("layout-mismatch", device, use, problem)
        elif layout and self.starts_now:
            problem = f"which is still partitioned by MIG: {_join(layout)}"
            self._add_misuse("gpu-still-partitioned", device, use, problem)

    def _can_partition(
        self, use: MigInstance, device: DeviceCount, geometry: MigGeometry | None
    ) -> bool:
        """Whether a claimed GPU can still get this instance, as no other job will be on it."""
        if self.starts_now or any(holder != self.job_id for holder, _ in device.uses):
            return False
        layout = tuple(one for _, one in device.uses if isinstance(one, MigInstance))
        return not problem_of_layout(geometry, (*layout, use))

    def _compare_shares(self, device: DeviceCount, spec: Pool) -> None:
        memory_mib = 0 if spec.gpu_model is None else spec.gpu_model.memory_mib
        shares = [use for _, use in device.uses if isinstance(use, ShareUse)]
        for resource, used, limit in (
            ("%", sum(one.percent for one in shares), WHOLE_PERCENT),
            ("MiB", sum(one.memory_mib for one in shares), memory_mib),
            ("clients", len(shares), spec.mps_client_limit),
        ):
            if used > limit:
                text = (
                    f"with {self.job_id}, shares of {device} add up to {used} {resource} of {limit}"
                )
                self._add_fault("gpu-shares-exceeded", text)

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

    def _add_misuse(self, rule: str, device: DeviceCount, use: Use, problem: str) -> None:
        text = f"{self.job_id} is assigned {_write(use)} of {device}, {problem}"
        self._add_fault(rule, text)

    def _add_fault(self, rule: str, text: str) -> None:
        self.faults.append(Fault(rule, self.job_id, text))


def _are_exclusive(geometry: MigGeometry | None, one: Use, other: Use) -> bool:
    """Whether two uses of one GPU exclude each other."""
    if isinstance(one, MigInstance) and isinstance(other, MigInstance):
        return overlap(geometry, one, other)
    return not (isinstance(one, ShareUse) and isinstance(other, ShareUse))


def _write(use: Use) -> str:
    if isinstance(use, ShareUse):
        return f"{use.percent} %"
    return "all" if use is None else str(use)


def _join(layout: Layout) -> str:
    return " ".join(str(one) for one in layout)
