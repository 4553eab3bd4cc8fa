"""Reads the folders and processes of attempts from outside."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from bursar.engines.local.supervisor.proc import all_processes
from bursar.ports import AttemptRef
from tests.conformance.engine_harness import LocalHarness, until


def folder_of(harness: LocalHarness, ref: AttemptRef) -> Path:
    return harness.state / "jobs" / ref.job_id / str(ref.attempt)


def process_record(harness: LocalHarness, ref: AttemptRef) -> dict[str, Any]:
    """The ids of the attempt process and of its tasks."""
    record: dict[str, Any] = json.loads((folder_of(harness, ref) / "processes").read_text())
    return record


def kill_and_wait(pid: int) -> None:
    """Send SIGKILL and wait until the process has ended."""
    os.kill(pid, signal.SIGKILL)
    until(f"process {pid} has ended", lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    return any(process.pid == pid and not process.is_zombie for process in all_processes())


def read_pid(path: Path) -> int:
    """Wait for a process id that a job writes."""
    until(f"{path.name} is written", lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())
