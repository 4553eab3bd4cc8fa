"""Jobs whose tasks play different roles, as one kind of task.

A trace job has tasks that are alike. Parameter servers and workers are not, so the roles that hold
GPUs stand for the job: all their tasks, each shaped as in the role that holds the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GPU_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRole:
    """Some tasks of a job that are alike. ``gpu_milli`` is all the GPU of one of them."""

    tasks: int
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def gpus(self) -> int:
        """Whole GPUs of a task. One and a half are two: nothing gives it a half beside a whole."""
        return 0 if self.gpu_milli < GPU_MILLI else -(-self.gpu_milli // GPU_MILLI)

    @property
    def part_milli(self) -> int:
        """The part of a GPU that a task has if it has no whole one."""
        return self.gpu_milli if self.gpu_milli < GPU_MILLI else 0


def as_one(roles: Sequence[TaskRole]) -> TaskRole:
    """The role that stands for a job, with the tasks of all that matter."""
    with_gpus = [role for role in roles if role.gpu_milli] or list(roles)
    largest = max(with_gpus, key=lambda role: (role.tasks * role.gpu_milli, role.tasks))
    return TaskRole(
        tasks=sum(role.tasks for role in with_gpus),
        gpu_milli=largest.gpu_milli,
        gpu_models=largest.gpu_models,
        cpu_milli=largest.cpu_milli,
        memory_mib=largest.memory_mib,
    )


def remarks_on(roles: Sequence[TaskRole]) -> list[str]:
    """What is lost by taking a job's roles as one; empty if nothing is."""
    with_gpus = [role for role in roles if role.gpu_milli]
    lost = []
    if with_gpus and len(with_gpus) < len(roles):
        lost.append("jobs with tasks without GPUs beside those with: the former left out")
    if len({role.gpu_milli for role in with_gpus}) > 1:
        lost.append("jobs with GPU tasks of several shapes: all taken like the largest")
    if any(role.gpu_milli > GPU_MILLI and role.gpu_milli % GPU_MILLI for role in roles):
        lost.append("jobs with tasks of one GPU and a part: rounded up to whole GPUs")
    return lost
