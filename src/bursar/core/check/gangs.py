"""Gangs are complete, every task has the resources of its group, and the price is right."""

from __future__ import annotations

from collections import Counter

from bursar.core.check.fault import Fault
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import GpuModel
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.units import MILLI, counted, write_usd


def gang_faults(job_id: str, spec: JobSpec, placement: Placement) -> list[Fault]:
    """Compares a placement with the request of the job, group by group."""
    groups = {group.name: group for group in spec.groups}
    placed: Counter[str] = Counter()
    faults: list[Fault] = []
    for task in placement.all_tasks:
        placed[task.group] += task.count
        group = groups.get(task.group)
        if group is None:
            text = f"{job_id} has no task group {task.group}, but its placement has tasks of it"
            faults.append(Fault("unknown-task-group", job_id, text))
        else:
            faults += _shape_faults(job_id, group, task)
    for group in spec.groups:
        least = group.count if group.min_count is None else group.min_count
        tasks = placed[group.name]
        if not least <= tasks <= group.count:
            faults.append(_incomplete(job_id, group, tasks, least))
    return faults


def _incomplete(job_id: str, group: TaskGroup, tasks: int, least: int) -> Fault:
    wanted = str(group.count) if least == group.count else f"{least} to {group.count}"
    text = f"{job_id} is placed with {counted(tasks, 'task')} of {group.name}, needs {wanted}"
    return Fault("gang-incomplete", job_id, text)


def _shape_faults(job_id: str, group: TaskGroup, task: Task) -> list[Fault]:
    gpu = group.gpu
    gpus = gpu.count if isinstance(gpu, WholeGpus) else 0
    slices = (gpu.profile,) if isinstance(gpu, MigSlice) else ()
    shares = ((gpu.percent, gpu.memory_mib),) if isinstance(gpu, MpsShare) else ()
    held_slices = tuple(sorted(use.instance.profile for use in task.slices))
    held_shares = tuple(sorted((use.percent, use.memory_mib) for use in task.shares))
    pairs: tuple[tuple[str, object, object], ...] = (
        ("GPUs", gpus * task.count, len(task.gpus)),
        ("slices", slices * task.count, held_slices),
        ("shares (percent, MiB)", shares * task.count, held_shares),
        ("milli-CPU", group.cpu_milli * task.count, task.cpu_milli),
        ("MiB of memory", group.memory_mib * task.count, task.memory_mib),
        ("MiB of disk", group.disk_mib * task.count, task.disk_mib),
    )
    faults = [
        Fault(
            "wrong-task-shape",
            job_id,
            f"tasks {group.name} of {job_id} on {task.node} need {wanted} "
            f"{resource}, have {actual}",
        )
        for resource, wanted, actual in pairs
        if wanted != actual
    ]
    if task.count < 1:
        faults.append(_incomplete(job_id, group, task.count, least=1))
    return faults


def price_faults(job_id: str, pool: Pool, placement: Placement) -> list[Fault]:
    """Compares a price with the largest fraction of a node per task, at the node's price."""
    price = pool.node_micro_usd_per_hour
    cost = 0
    for task in placement.tasks:
        costs = [price * task.cpu_milli // pool.cpu_milli if pool.cpu_milli else 0]
        costs.append(price * task.memory_mib // pool.memory_mib if pool.memory_mib else 0)
        if pool.gpus_per_node:
            held = gpu_milli_of(task, pool.gpu_model)
            costs.append(price * held // (pool.gpus_per_node * MILLI))
        cost += min(price, max(costs))
    if cost == placement.micro_usd_per_hour:
        return []
    text = (
        f"{job_id} is priced at {write_usd(placement.micro_usd_per_hour)} an hour; "
        f"its resources cost {write_usd(cost)}"
    )
    return [Fault("wrong-price", job_id, text)]


def gpu_milli_of(task: Task, model: GpuModel | None) -> int:
    """Thousandths of a GPU that tasks hold; a slice counts its larger share of compute or memory."""
    held = MILLI * len(task.gpus)
    for share in task.shares:
        held += share.percent * 10
    geometry = None if model is None else model.mig
    for use in task.slices:
        profile = None if geometry is None else geometry.find(use.instance.profile)
        if geometry is not None and profile is not None:
            compute = MILLI * profile.compute_slices // geometry.compute_slices
            held += max(compute, MILLI * profile.memory_slices // geometry.memory_slices)
    return held
