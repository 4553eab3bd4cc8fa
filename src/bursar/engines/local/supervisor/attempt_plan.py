"""What the control plane hands over about an attempt. Secrets are in it: it is sent, never written."""

from __future__ import annotations

from typing import Any, NamedTuple


class TaskPlan(NamedTuple):
    """One process to start, and what its node allows all tasks of the attempt there together."""

    rank: int
    node: str
    node_rank: int
    env: dict[str, str]
    cpu_milli: int
    memory_mib: int


class AttemptPlan(NamedTuple):
    """One attempt. ``refused`` says why it must not run at all: then only its end is recorded."""

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
        """Plain values."""
        return {**self._asdict(), "tasks": [task._asdict() for task in self.tasks]}


def read_plan(message: dict[str, Any]) -> AttemptPlan:
    """The way back."""
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

    @property
    def is_success(self) -> bool:
        return self.code == 0


class CannotStart(Exception):
    """The attempt ends before its tasks begin; the text says why and what to do."""
