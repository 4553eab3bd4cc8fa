"""Who is who in a gang: ranks in order, and the names that every engine tells each task."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from bursar.model.jobs.attempt import Task
from bursar.ports import StartOrder

ARRAY_MEMBER = re.compile(r"\[(\d+)\]$")
ALLOWED_STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRank:
    """One process of the gang: whose devices it may use."""

    task: Task
    index: int
    """Among the tasks of the same group on the same node."""


def seats_of(order: StartOrder) -> list[TaskRank]:
    """In order of rank: groups as the job declares them, then nodes as they were placed."""
    place = {group.name: number for number, group in enumerate(order.spec.groups)}
    tasks = sorted(order.placement.all_tasks, key=lambda task: place.get(task.group, len(place)))
    return [TaskRank(task=task, index=index) for task in tasks for index in range(task.count)]


def task_environment(order: StartOrder, seat: TaskRank, rank: int) -> dict[str, str]:
    """What a task may know of itself."""
    names = {
        "BURSAR_JOB_ID": order.ref.job_id,
        "BURSAR_JOB_NAME": order.spec.name,
        "BURSAR_ATTEMPT": str(order.ref.attempt),
        "BURSAR_QUEUE": order.spec.queue,
        "BURSAR_NODE": seat.task.node,
        "BURSAR_TASK": str(rank),
        "BURSAR_GROUP": seat.task.group,
        "BURSAR_GRACE_SECONDS": str(order.recipe.grace_seconds),
    }
    member = ARRAY_MEMBER.search(order.ref.job_id)
    if member:
        names["BURSAR_ARRAY_INDEX"] = member.group(1)
    return names


def bad_command(order: StartOrder) -> str:
    """Why what is to be run cannot be, or nothing. Admission says it first; this is the last gate."""
    recipe = order.recipe
    if not recipe.run and not recipe.argv:
        return "not started: the job has nothing to run; give it a run script"
    if not recipe.argv and not recipe.shell.startswith("/"):
        return f"not started: the shell {recipe.shell[:60]!r} is no absolute path; use /bin/bash"
    if any("\0" in word for word in recipe.argv):
        return "not started: the command contains a NUL character; remove it"
    if recipe.stop_signal not in ALLOWED_STOP_SIGNALS:
        allowed = ", ".join(ALLOWED_STOP_SIGNALS)
        return f"not started: {recipe.stop_signal[:30]!r} is no signal to stop with; use {allowed}"
    return ""


def stop_signal(name: str) -> int:
    """Its number; that of SIGTERM for what is no signal to stop with."""
    return int(signal.Signals[name]) if name in ALLOWED_STOP_SIGNALS else int(signal.SIGTERM)
