"""Ranks of a gang's tasks, and the environment variables that every engine sets for a task."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from bursar.engines.environment import name_problem, value_problem
from bursar.model.jobs.attempt import Task
from bursar.ports import StartOrder

ARRAY_MEMBER = re.compile(r"\[(\d+)\]$")
ALLOWED_STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRank:
    """One process of a gang, and the task whose devices it uses."""

    task: Task
    index: int
    """Among the tasks of the same group on the same node."""


def ranked_tasks(order: StartOrder) -> list[TaskRank]:
    """Processes in order of rank: by group as the job declares them, then by node as placed."""
    position = {group.name: number for number, group in enumerate(order.spec.groups)}
    tasks = sorted(
        order.placement.all_tasks, key=lambda task: position.get(task.group, len(position))
    )
    return [TaskRank(task=task, index=index) for task in tasks for index in range(task.count)]


def task_environment(order: StartOrder, member: TaskRank, rank: int) -> dict[str, str]:
    """The ``BURSAR_*`` variables of one task."""
    names = {
        "BURSAR_JOB_ID": order.ref.job_id,
        "BURSAR_JOB_NAME": order.spec.name,
        "BURSAR_ATTEMPT": str(order.ref.attempt),
        "BURSAR_QUEUE": order.spec.queue,
        "BURSAR_NODE": member.task.node,
        "BURSAR_TASK": str(rank),
        "BURSAR_GROUP": member.task.group,
        "BURSAR_GRACE_SECONDS": str(order.recipe.grace_seconds),
    }
    array_index = ARRAY_MEMBER.search(order.ref.job_id)
    if array_index:
        names["BURSAR_ARRAY_INDEX"] = array_index.group(1)
    return names


def start_problem(order: StartOrder) -> str:
    """Why the order cannot be started, or "". Admission checks this first; this is the last check."""
    user = {**order.recipe.envs, **order.recipe.secrets}
    return name_problem(user) or value_problem(user) or _command_problem(order)


def _command_problem(order: StartOrder) -> str:
    recipe = order.recipe
    if not recipe.run and not recipe.argv:
        return "not started: the job has nothing to run; give it a run script"
    if not recipe.argv and not recipe.shell.startswith("/"):
        return (
            f"not started: the shell {recipe.shell[:60]!r} is not an absolute path; use /bin/bash"
        )
    if any("\0" in word for word in recipe.argv):
        return "not started: the command contains a NUL character; remove it"
    if recipe.stop_signal not in ALLOWED_STOP_SIGNALS:
        allowed = ", ".join(ALLOWED_STOP_SIGNALS)
        return (
            f"not started: {recipe.stop_signal[:30]!r} is not an allowed stop signal; use {allowed}"
        )
    return ""


def stop_signal(name: str) -> int:
    """Number of a stop signal; SIGTERM for a name that is not allowed."""
    return int(signal.Signals[name]) if name in ALLOWED_STOP_SIGNALS else int(signal.SIGTERM)
