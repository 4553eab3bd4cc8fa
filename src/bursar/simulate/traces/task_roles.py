"""Merges task roles, such as parameter server and worker, into one kind of task.

All tasks of a trace job are identical. The merged role has all tasks that have GPUs, each with the
resources of the role that has the most GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GPU_MILLI = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRole:
    """Identical tasks of a job; ``gpu_milli`` is the GPUs of one task, in thousandths."""

    tasks: int
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def gpus(self) -> int:
        """Whole GPUs of a task; 1.5 is rounded up to 2, as no task gets a whole GPU and a share."""
        return 0 if self.gpu_milli < GPU_MILLI else -(-self.gpu_milli // GPU_MILLI)

    @property
    def gpu_fraction_milli(self) -> int:
        """The fraction of a GPU that a task has, if it has less than one."""
        return self.gpu_milli if self.gpu_milli < GPU_MILLI else 0


def merge_roles(roles: Sequence[TaskRole]) -> TaskRole:
    """Returns one role for the job, with all tasks that have GPUs."""
    with_gpus = [role for role in roles if role.gpu_milli] or list(roles)
    largest = max(with_gpus, key=lambda role: (role.tasks * role.gpu_milli, role.tasks))
    return TaskRole(
        tasks=sum(role.tasks for role in with_gpus),
        gpu_milli=largest.gpu_milli,
        gpu_models=largest.gpu_models,
        cpu_milli=largest.cpu_milli,
        memory_mib=largest.memory_mib,
    )


def merge_notes(roles: Sequence[TaskRole]) -> list[str]:
    """Returns what merging the roles of a job loses; empty if nothing."""
    with_gpus = [role for role in roles if role.gpu_milli]
    notes = []
    if with_gpus and len(with_gpus) < len(roles):
        notes.append("jobs with GPU tasks and CPU-only tasks: the CPU-only tasks left out")
    if len({role.gpu_milli for role in with_gpus}) > 1:
        notes.append("jobs with GPU tasks of several sizes: all read as the largest")
    if any(role.gpu_milli > GPU_MILLI and role.gpu_milli % GPU_MILLI for role in roles):
        notes.append("jobs with tasks of 1 GPU and a fraction: rounded up to whole GPUs")
    return notes
