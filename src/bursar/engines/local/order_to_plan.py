"""Turns a start order into an attempt plan: ranks, devices and variables of every task. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bursar.engines.local.gpu_discovery import DetectedGpu
from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor.attempt_plan import AttemptPlan, TaskPlan
from bursar.engines.task_ranks import (
    TaskRank,
    ranked_tasks,
    start_problem,
    stop_signal,
    task_environment,
)
from bursar.model.units import SECOND_MS
from bursar.ports import StartOrder


def make_plan(order: StartOrder, settings: LocalSettings) -> AttemptPlan:
    """The complete plan; the attempt process has nothing left to choose."""
    recipe = order.recipe
    return AttemptPlan(
        job_id=order.ref.job_id,
        attempt=order.ref.attempt,
        tasks=tuple(_tasks(order, settings)),
        argv=recipe.argv,
        run=recipe.run,
        setup=recipe.setup,
        shell=recipe.shell,
        workdir=recipe.workdir or "",
        mounts=tuple((mount.target, mount.bundle) for mount in recipe.mounts),
        grace_ms=recipe.grace_seconds * SECOND_MS,
        stop_signal=stop_signal(recipe.stop_signal),
        log_bytes=settings.log_bytes,
        log_files=max(1, settings.log_files),
        cgroup=str(settings.cgroup or ""),
        refused=start_problem(order),
    )


def _tasks(order: StartOrder, settings: LocalSettings) -> Iterator[TaskPlan]:
    members = ranked_tasks(order)
    nodes = list(dict.fromkeys(member.task.node for member in members))
    per_node = {node: [member for member in members if member.task.node == node] for node in nodes}
    limits = {node: _limits(order, node) for node in nodes}
    for rank, member in enumerate(members):
        node = member.task.node
        devices = _devices(member, settings.gpus.get(node, ()))
        gpus_per_task = len([name for name in devices["CUDA_VISIBLE_DEVICES"].split(",") if name])
        cpu_milli, memory_mib = limits[node]
        env = {
            "PATH": settings.path,
            "LANG": settings.language,
            **order.recipe.envs,
            **order.recipe.secrets,
            **devices,
            "MASTER_ADDR": "127.0.0.1",
            "RANK": str(rank),
            "WORLD_SIZE": str(len(members)),
            "LOCAL_RANK": str(per_node[node].index(member)),
            "LOCAL_WORLD_SIZE": str(len(per_node[node])),
            "NODE_RANK": str(nodes.index(node)),
            **task_environment(order, member, rank),
            "SKYPILOT_NODE_RANK": str(rank),
            "SKYPILOT_NUM_NODES": str(len(members)),
            "SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * len(members)),
            "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus_per_task),
        }
        yield TaskPlan(rank, node, nodes.index(node), env, cpu_milli, memory_mib)


def _limits(order: StartOrder, node: str) -> tuple[int, int]:
    """CPU and memory of the attempt on one node; 0 (no limit) if any task has no request."""
    tasks = [task for task in order.placement.all_tasks if task.node == node]
    cpu_milli = sum(task.cpu_milli for task in tasks)
    memory_mib = sum(task.memory_mib for task in tasks)
    return (
        cpu_milli if all(task.cpu_milli for task in tasks) else 0,
        memory_mib if all(task.memory_mib for task in tasks) else 0,
    )


def _devices(member: TaskRank, real: tuple[DetectedGpu, ...]) -> dict[str, str]:
    """The variables that show CUDA the devices of a task, and none when it has none."""
    task = member.task
    if task.gpus:
        each = len(task.gpus) // task.count
        own = task.gpus[member.index * each : (member.index + 1) * each]
        return {"CUDA_VISIBLE_DEVICES": ",".join(_gpu_name(gpu, real) for gpu in own)}
    if task.slices:
        each = len(task.slices) // task.count
        slices = task.slices[member.index * each : (member.index + 1) * each]
        uuids = [
            real[use.gpu].slice_uuid(use.instance) if use.gpu < len(real) else None
            for use in slices
        ]
        names = [
            uuid or f"MIG-virtual-{use.gpu}-{use.instance.profile}-{use.instance.start}"
            for uuid, use in zip(uuids, slices, strict=True)
        ]
        return {"CUDA_VISIBLE_DEVICES": ",".join(names)}
    if task.shares:
        share = task.shares[member.index]
        env = {
            "CUDA_VISIBLE_DEVICES": _gpu_name(share.gpu, real),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share.percent),
        }
        if share.memory_mib:
            env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={share.memory_mib}M"
        return env
    return {"CUDA_VISIBLE_DEVICES": ""}


def _gpu_name(gpu: int, real: tuple[DetectedGpu, ...]) -> str:
    return real[gpu].uuid if gpu < len(real) else str(gpu)
