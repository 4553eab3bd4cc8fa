"""Attempts whose keeper is gone: nothing of them may live on unobserved, and their end is recorded."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping

from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor import proc
from bursar.engines.local.supervisor.attempt_folder import AttemptFolder, indexed
from bursar.engines.local.supervisor.attempt_process import clear_away
from bursar.engines.local.supervisor.resource_limits import ControlGroup, NodeLimit
from bursar.engines.local.supervisor.socket_messages import note

LOOK_AGAIN_SECONDS = 0.25
KILL_AGAIN_SECONDS = 0.02


class OrphanCleanup:
    """Keepers of an earlier warden are watched by their locks; what lost its keeper is ended.

    ``keepers`` are the warden's own children by process id, live. Any other child of the warden is an
    orphan of a keeper that was killed.
    """

    def __init__(self, keepers: Mapping[int, AttemptFolder], notes: int) -> None:
        self._keepers = keepers
        self._notes = notes
        self._adopted: list[AttemptFolder] = []
        self._lost: list[AttemptFolder] = []

    @property
    def is_watching(self) -> bool:
        return bool(self._adopted or self._lost)

    @property
    def wait_seconds(self) -> float:
        """How soon to look again."""
        if self._lost:
            return KILL_AGAIN_SECONDS
        return LOOK_AGAIN_SECONDS if self._adopted else 60.0

    def find_lost(self, state: str) -> None:
        """At the start of a warden: attempts that were taken and have not ended."""
        for folder in indexed(state):
            if not folder.has(names.ENDED):
                self._adopted.append(folder)

    def add(self, folder: AttemptFolder) -> None:
        """Its keeper is known to be gone."""
        if all(folder.path != known.path for known in self._lost):
            self._lost.append(folder)

    def go_on(self) -> None:
        """Look after all of them once; never waits."""
        if self._adopted:
            for folder in self._adopted:
                if not has_keeper(folder):
                    self.add(folder)
            lost = {folder.path for folder in self._lost}
            self._adopted = [
                folder
                for folder in self._adopted
                if folder.path not in lost and not folder.has(names.ENDED)
            ]
        if self._lost:
            orphans = self._kill_orphans()
            self._lost = [folder for folder in self._lost if orphans or not self._bury(folder)]

    def _kill_orphans(self) -> int:
        own = os.getpid()
        return proc.kill(
            process
            for process in proc.everything()
            if process.parent == own and process.pid not in self._keepers
        )

    def _bury(self, folder: AttemptFolder) -> bool:
        """Whether it is over: nothing of it runs, and its end is written."""
        if folder.has(names.ENDED):
            return True
        folder.settle_in()
        mark, record = folder.read(names.TAKEN) or {}, folder.read(names.KEEPER) or {}
        boot = proc.boot_id()
        same_boot = record.get("boot") == boot
        leaders = [(pid, start) for pid, start in record.get("tasks", ())] if same_boot else []
        if proc.kill(proc.find_orphans(mark.get("key", ""), leaders)):
            return False
        _clear_groups(mark.get("cgroup", ""), folder)
        detail = "lost: its keeper was killed, and its processes with it"
        if mark.get("boot", boot) != boot:
            detail = "lost: the machine was restarted before it ended"
        elif not folder.has(names.BEGAN):
            detail = "lost: its keeper was killed before its tasks began"
        at_ms = time.time_ns() // 1_000_000
        try:
            folder.write_end({"at_ms": at_ms, "code": None, "signal": None, "detail": detail})
        except OSError:
            return False
        ref = {"job_id": folder.job_id, "attempt": folder.attempt}
        note(self._notes, {**ref, "what": "ended", "at_ms": at_ms})
        clear_away(folder)
        return True


def has_keeper(folder: AttemptFolder) -> bool:
    """Whether somebody holds the lock on the mark. Nobody else ever takes it but for this look."""
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


def _clear_groups(parent: str, folder: AttemptFolder) -> None:
    """Control groups that the keeper would have removed, with all that is in them."""
    if not parent or not os.path.isdir(parent):
        return
    prefix = f"{folder.job_id}@{folder.attempt}-"
    for name in sorted(os.listdir(parent)):
        if name.startswith(prefix):
            group = ControlGroup(parent, name, NodeLimit("", 0, 0))
            group.kill()
            group.remove()
