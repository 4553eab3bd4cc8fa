"""Cleans up attempts whose attempt process was killed: kills the rest and records their end."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping

from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor import proc
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder, indexed
from bursar.engines.local.supervisor.attempt_process import remove_runtime_files
from bursar.engines.local.supervisor.resource_limits import ControlGroup, NodeLimit
from bursar.engines.local.supervisor.socket_messages import notify

POLL_SECONDS = 0.25
KILL_AGAIN_SECONDS = 0.02


class OrphanCleanup:
    """Watches attempt processes of an earlier supervisor by their locks; ends attempts that lost theirs.

    ``attempts`` are the supervisor's own child processes by id, kept up to date by the supervisor. Any other
    child is an orphan of an attempt process that was killed.
    """

    def __init__(self, attempts: Mapping[int, AttemptFolder], engine_fd: int) -> None:
        self._attempts = attempts
        self._engine_fd = engine_fd
        self._adopted: list[AttemptFolder] = []
        self._lost: list[AttemptFolder] = []

    @property
    def is_watching(self) -> bool:
        return bool(self._adopted or self._lost)

    @property
    def wait_seconds(self) -> float:
        """How soon to call ``advance`` again."""
        if self._lost:
            return KILL_AGAIN_SECONDS
        return POLL_SECONDS if self._adopted else 60.0

    def find_lost(self, state: str) -> None:
        """At the start of a supervisor: watch attempts that were claimed and have not ended."""
        for folder in indexed(state):
            if not folder.has(names.ENDED):
                self._adopted.append(folder)

    def add(self, folder: AttemptFolder) -> None:
        """Clean up an attempt whose process has ended."""
        if all(folder.path != known.path for known in self._lost):
            self._lost.append(folder)

    def advance(self) -> None:
        """Check all watched attempts once, without blocking."""
        if self._adopted:
            for folder in self._adopted:
                if not has_attempt_process(folder):
                    self.add(folder)
            lost = {folder.path for folder in self._lost}
            self._adopted = [
                folder
                for folder in self._adopted
                if folder.path not in lost and not folder.has(names.ENDED)
            ]
        if self._lost:
            orphans = self._kill_orphans()
            self._lost = [folder for folder in self._lost if orphans or not self._finish(folder)]

    def _kill_orphans(self) -> int:
        own = os.getpid()
        return proc.kill(
            process
            for process in proc.all_processes()
            if process.parent == own and process.pid not in self._attempts
        )

    def _finish(self, folder: AttemptFolder) -> bool:
        """Whether no process of the attempt is left and its end is written."""
        if folder.has(names.ENDED):
            return True
        folder.link_claim()
        claim, record = folder.read(names.CLAIM) or {}, folder.read(names.PROCESSES) or {}
        boot = proc.boot_id()
        same_boot = record.get("boot") == boot
        leaders = [(pid, start) for pid, start in record.get("tasks", ())] if same_boot else []
        if proc.kill(proc.find_orphans(claim.get("key", ""), leaders)):
            return False
        _remove_groups(claim.get("cgroup", ""), folder)
        detail = "lost: its attempt process was killed, and its tasks with it"
        if claim.get("boot", boot) != boot:
            detail = "lost: the machine was restarted before it ended"
        elif not folder.has(names.BEGAN):
            detail = "lost: its attempt process was killed before its tasks began"
        at_ms = time.time_ns() // 1_000_000
        try:
            folder.write_end({"at_ms": at_ms, "code": None, "signal": None, "detail": detail})
        except OSError:
            return False
        notify(self._engine_fd, folder)
        remove_runtime_files(folder)
        return True


def has_attempt_process(folder: AttemptFolder) -> bool:
    """Whether an attempt process holds the lock on the claim."""
    try:
        fd = os.open(folder.entry, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _remove_groups(parent: str, folder: AttemptFolder) -> None:
    """Kill and remove the control groups that the attempt process left behind."""
    if not parent or not os.path.isdir(parent):
        return
    prefix = f"{folder.job_id}@{folder.attempt}-"
    for name in sorted(os.listdir(parent)):
        if name.startswith(prefix):
            group = ControlGroup(parent, name, NodeLimit("", 0, 0))
            group.kill()
            group.remove()
