"""The plan of an attempt, as the control plane sends it. It contains secrets: it is never written."""

from __future__ import annotations

from typing import Any, NamedTuple


class TaskPlan(NamedTuple):
    """One process to start, and the limits of all tasks of the attempt on its node."""

    rank: int
    node: str
    node_rank: int
    env: dict[str, str]
    cpu_milli: int
    memory_mib: int


class AttemptPlan(NamedTuple):
    """One attempt. If ``refused`` gives a reason, nothing runs and only the end is recorded."""

    job_id: str
    attempt: int
    tasks: tuple[TaskPlan, ...]
    argv: tuple[str, ...]
    run: str
    setup: str
    shell: str
    workdir: str
    mounts: tuple[tuple[str, str], ...]
    grace_ms: int
    stop_signal: int
    log_bytes: int
    log_files: int
    cgroup: str
    refused: str

    def as_message(self) -> dict[str, Any]:
        """As values for JSON."""
        return {**self._asdict(), "tasks": [task._asdict() for task in self.tasks]}


def read_plan(message: dict[str, Any]) -> AttemptPlan:
    """Parse the result of ``as_message``."""
    plain = dict(message)
    plain["tasks"] = tuple(TaskPlan(**task) for task in plain["tasks"])
    plain["argv"] = tuple(plain["argv"])
    plain["mounts"] = tuple((target, bundle) for target, bundle in plain["mounts"])
    return AttemptPlan(**plain)


class Outcome(NamedTuple):
    """How an attempt, or a stage of it, ended."""

    code: int | None = None
    signal: int | None = None
    detail: str = ""


class CannotStart(Exception):
    """The attempt ends before its tasks begin; the text is the reason and the fix."""
