"""Gangs are whole, every task has what its group asks for, and the price is the price."""

from __future__ import annotations

from collections import Counter

from bursar.core.check.fault import Fault
from bursar.model.fleet.fleet import Pool
from bursar.model.fleet.gpu import GpuModel
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.units import MILLI, write_usd


def gang_faults(job_id: str, spec: JobSpec, placement: Placement) -> list[Fault]:
    """Compare a placement with what the job asked for, group by group."""
    groups = {group.name: group for group in spec.groups}
    placed: Counter[str] = Counter()
    found: list[Fault] = []
    for task in placement.all_tasks:
        placed[task.group] += task.count
        group = groups.get(task.group)
        if group is None:
            text = f"{job_id} has no task group {task.group}, yet is given a place for it"
            found.append(Fault("unknown-task-group", job_id, text))
        else:
            found += _shape_faults(job_id, group, task)
    for group in spec.groups:
        least = group.count if group.min_count is None else group.min_count
        tasks = placed[group.name]
        if not least <= tasks <= group.count:
            found.append(_not_whole(job_id, group, tasks, least))
    return found


def _not_whole(job_id: str, group: TaskGroup, tasks: int, least: int) -> Fault:
    wanted = str(group.count) if least == group.count else f"{least} to {group.count}"
    text = f"{job_id} has places for {tasks} tasks of {group.name}, needs {wanted}"
    return Fault("gang-not-whole", job_id, text)


def _shape_faults(job_id: str, group: TaskGroup, task: Task) -> list[Fault]:
    wanted_slices, wanted_shares = _wanted_parts(group, task.count)
    gpus = group.gpu.count * task.count if isinstance(group.gpu, WholeGpus) else 0
    slices = tuple(sorted(use.instance.profile for use in task.slices))
    shares = tuple(sorted((use.percent, use.memory_mib) for use in task.shares))
    pairs: tuple[tuple[str, object, object], ...] = (
        ("GPUs", gpus, len(task.gpus)),
        ("slices", wanted_slices, slices),
        ("shares (percent, MiB)", wanted_shares, shares),
        ("milli-CPU", group.cpu_milli * task.count, task.cpu_milli),
        ("MiB of memory", group.memory_mib * task.count, task.memory_mib),
        ("MiB of disk", group.disk_mib * task.count, task.disk_mib),
    )
    found = [
        Fault(
            "wrong-task-shape",
            job_id,
            f"tasks {group.name} of {job_id} on {task.node} need {wanted} "
            f"{resource}, are given {given}",
        )
        for resource, wanted, given in pairs
        if wanted != given
    ]
    if task.count < 1:
        found.append(_not_whole(job_id, group, task.count, least=1))
    return found


def _wanted_parts(
    group: TaskGroup, tasks: int
) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """The profiles, and the shares as percent and memory, that so many tasks hold."""
    match group.gpu:
        case MigSlice(profile=profile):
            return (profile,) * tasks, ()
        case MpsShare(percent=percent, memory_mib=memory_mib):
            return (), ((percent, memory_mib),) * tasks
        case _:
            return (), ()


def price_faults(job_id: str, pool: Pool, placement: Placement) -> list[Fault]:
    """The largest part of a node that tasks take, at the node's price, summed over the tasks."""
    price = pool.node_micro_usd_per_hour
    counted = 0
    for task in placement.tasks:
        parts = [price * task.cpu_milli // pool.cpu_milli if pool.cpu_milli else 0]
        parts.append(price * task.memory_mib // pool.memory_mib if pool.memory_mib else 0)
        if pool.gpus_per_node:
            held = gpu_milli_of(task, pool.gpu_model)
            parts.append(price * held // (pool.gpus_per_node * MILLI))
        counted += min(price, max(parts))
    if counted == placement.micro_usd_per_hour:
        return []
    text = (
        f"{job_id} is priced at {write_usd(placement.micro_usd_per_hour)} an hour; "
        f"what it takes costs {write_usd(counted)}"
    )
    return [Fault("wrong-price", job_id, text)]


def gpu_milli_of(task: Task, model: GpuModel | None) -> int:
    """Thousandths of a GPU that tasks hold: of a slice, the larger part of compute and memory."""
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
