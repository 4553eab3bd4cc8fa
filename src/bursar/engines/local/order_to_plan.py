"""From an order to a plan for the keeper: ranks, devices and variables of every task. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bursar.engines.environment import bad_value, refusal
from bursar.engines.local.gpu_discovery import FoundGpu
from bursar.engines.local.supervisor.attempt_plan import AttemptPlan, TaskPlan
from bursar.engines.task_ranks import TaskRank, bad_command, seats_of, stop_signal, task_environment
from bursar.model.units import SECOND_MS
from bursar.ports import StartOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSurroundings:
    """What every attempt of this machine shares."""

    path: str
    language: str
    log_bytes: int
    log_files: int
    cgroup: str
    gpus: Mapping[str, tuple[FoundGpu, ...]]
    """By node: its real GPUs in order of index. Nodes that are not in it have virtual ones."""


def plan_of(order: StartOrder, around: JobSurroundings) -> AttemptPlan:
    """Everything the keeper needs, with nothing left to choose."""
    recipe = order.recipe
    user = {**recipe.envs, **recipe.secrets}
    refused = refusal(user) or bad_value(user) or bad_command(order)
    return AttemptPlan(
        job_id=order.ref.job_id,
        attempt=order.ref.attempt,
        tasks=tuple(_tasks(order, around, user)),
        argv=recipe.argv,
        run=recipe.run,
        setup=recipe.setup,
        shell=recipe.shell,
        workdir=recipe.workdir or "",
        mounts=tuple((mount.target, mount.bundle) for mount in recipe.mounts),
        grace_ms=recipe.grace_seconds * SECOND_MS,
        stop_signal=stop_signal(recipe.stop_signal),
        log_bytes=around.log_bytes,
        log_files=around.log_files,
        cgroup=around.cgroup,
        refused=refused,
    )


def _tasks(
    order: StartOrder, around: JobSurroundings, user: Mapping[str, str]
) -> Iterator[TaskPlan]:
    seats = seats_of(order)
    nodes = list(dict.fromkeys(seat.task.node for seat in seats))
    per_node = {node: [seat for seat in seats if seat.task.node == node] for node in nodes}
    limits = {node: _limits(order, node) for node in nodes}
    for rank, seat in enumerate(seats):
        node = seat.task.node
        devices = _devices(seat, around.gpus.get(node, ()))
        gpus_per_task = len([name for name in devices["CUDA_VISIBLE_DEVICES"].split(",") if name])
        cpu_milli, memory_mib = limits[node]
        env = {
            "PATH": around.path,
            "LANG": around.language,
            **user,
            **devices,
            "MASTER_ADDR": "127.0.0.1",
            "RANK": str(rank),
            "WORLD_SIZE": str(len(seats)),
            "LOCAL_RANK": str(per_node[node].index(seat)),
            "LOCAL_WORLD_SIZE": str(len(per_node[node])),
            "NODE_RANK": str(nodes.index(node)),
            **task_environment(order, seat, rank),
            "SKYPILOT_NODE_RANK": str(rank),
            "SKYPILOT_NUM_NODES": str(len(seats)),
            "SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * len(seats)),
            "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus_per_task),
        }
        yield TaskPlan(rank, node, nodes.index(node), env, cpu_milli, memory_mib)


def _limits(order: StartOrder, node: str) -> tuple[int, int]:
    """CPU and memory of the whole attempt on one node; a part without a request leaves no limit."""
    tasks = [task for task in order.placement.all_tasks if task.node == node]
    cpu_milli = sum(task.cpu_milli for task in tasks)
    memory_mib = sum(task.memory_mib for task in tasks)
    return (
        cpu_milli if all(task.cpu_milli for task in tasks) else 0,
        memory_mib if all(task.memory_mib for task in tasks) else 0,
    )


def _devices(seat: TaskRank, real: tuple[FoundGpu, ...]) -> dict[str, str]:
    """The variables by which CUDA sees what the task holds, and nothing when it holds none."""
    task = seat.task
    if task.gpus:
        each = len(task.gpus) // task.count
        own = task.gpus[seat.index * each : (seat.index + 1) * each]
        return {"CUDA_VISIBLE_DEVICES": ",".join(_whole(gpu, real) for gpu in own)}
    if task.slices:
        each = len(task.slices) // task.count
        slices = task.slices[seat.index * each : (seat.index + 1) * each]
        found = [
            real[use.gpu].slice_uuid(use.instance) if use.gpu < len(real) else None
            for use in slices
        ]
        names = [
            uuid or f"MIG-virtual-{use.gpu}-{use.instance.profile}-{use.instance.start}"
            for uuid, use in zip(found, slices, strict=True)
        ]
        return {"CUDA_VISIBLE_DEVICES": ",".join(names)}
    if task.shares:
        share = task.shares[seat.index]
        env = {
            "CUDA_VISIBLE_DEVICES": _whole(share.gpu, real),
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share.percent),
        }
        if share.memory_mib:
            env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={share.memory_mib}M"
        return env
    return {"CUDA_VISIBLE_DEVICES": ""}


def _whole(gpu: int, real: tuple[FoundGpu, ...]) -> str:
    return real[gpu].uuid if gpu < len(real) else str(gpu)
