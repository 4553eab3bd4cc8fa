"""What tests see of processes and folders from outside."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from bursar.engines.local.supervisor.proc import everything
from bursar.ports import AttemptRef
from tests.conformance.engine_stands import LocalStand, until


def folder_of(stand: LocalStand, ref: AttemptRef) -> Path:
    return stand.state / "jobs" / ref.job_id / str(ref.attempt)


def keeper_of(stand: LocalStand, ref: AttemptRef) -> dict[str, Any]:
    """Its record: the keeper's id and those of its tasks."""
    record: dict[str, Any] = json.loads((folder_of(stand, ref) / "keeper").read_text())
    return record


def kill_and_wait(pid: int) -> None:
    """SIGKILL, and until it has had its effect."""
    os.kill(pid, signal.SIGKILL)
    until(f"process {pid} is gone", lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    return any(process.pid == pid and not process.is_zombie for process in everything())


def read_pid(path: Path) -> int:
    """A process id that a job wrote."""
    until(f"{path.name} is written", lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())
