"""Starts and ends the processes of a lab; identifies them by id and start time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

PAUSE_SECONDS = 0.02


class Daemons:
    """The processes of one lab, recorded in files in ``run``, so that another process can end them."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: Sequence[str], more: Mapping[str, str] | None = None) -> int:
        """Start a program in a new session."""
        with open(self._folder / "log" / f"{name}.out", "ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={**self._environment, **(more or {})},
                start_new_session=True,
            )
        self._children[name] = child
        record = {"pid": child.pid, "start": start_time(child.pid)}
        self._file(name).write_text(json.dumps(record), encoding="utf-8")
        return child.pid

    def pid(self, name: str) -> int | None:
        """The process id; None if the process is dead or its id was reused."""
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            return None
        try:
            record = json.loads(self._file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        pid = int(record["pid"])
        return pid if record["start"] and start_time(pid) == record["start"] else None

    def names(self) -> list[str]:
        """Processes that were started and not ended by ``end``, dead or alive."""
        return sorted(file.stem for file in (self._folder / "run").glob("*.process"))

    def end(self, name: str, number: int = signal.SIGTERM, timeout_seconds: float = 5.0) -> None:
        """End one process and wait; after the timeout it is killed."""
        pid = self.pid(name)
        if pid is not None:
            _signal(pid, number)
            if not waited_for(lambda: self.pid(name) is None, timeout_seconds):
                _signal(pid, signal.SIGKILL)
                waited_for(lambda: self.pid(name) is None, timeout_seconds)
        child = self._children.pop(name, None)
        if child is not None:
            child.wait(timeout=timeout_seconds)
        self._file(name).unlink(missing_ok=True)

    def end_all(self, names: Sequence[str]) -> None:
        """End several processes: signals all of them, then waits for each."""
        for name in names:
            pid = self.pid(name)
            if pid is not None:
                _signal(pid, signal.SIGTERM)
        for name in names:
            self.end(name)

    def _file(self, name: str) -> Path:
        return self._folder / "run" / f"{name}.process"


def start_time(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 if it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    rest = text[text.rindex(b")") + 2 :].split()
    return 0 if rest[0] in b"ZX" else int(rest[19])


def holding_open(name: str, pattern: str) -> list[int]:
    """Processes with this name that have a matching file open."""
    return [
        int(entry)
        for entry in sorted(os.listdir("/proc"))
        if entry.isdecimal() and _name(entry) == name and _has_open(entry, pattern)
    ]


def _name(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _has_open(pid: str, pattern: str) -> bool:
    try:
        return any(
            fnmatch(os.readlink(f"/proc/{pid}/fd/{entry}"), pattern)
            for entry in os.listdir(f"/proc/{pid}/fd")
        )
    except OSError:
        return False


def descendants(roots: Sequence[int]) -> list[int]:
    """All descendants of these processes."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                text = Path(f"/proc/{entry}/stat").read_bytes()
            except OSError:
                continue
            parent = int(text[text.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry))
    below: list[int] = []
    pending = list(roots)
    while pending:
        direct = children.get(pending.pop(), [])
        below += direct
        pending += direct
    return below


def waited_for(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    """Poll a condition; returns whether it became true before the timeout."""
    until = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def kill_simultaneously(find: Callable[[], Sequence[int]]) -> None:
    """Kill processes as if their machine lost power. ``find`` returns them, parents before children.

    All are stopped before the first is killed: a parent that outlives its child would report that the child
    was killed, which a machine without power cannot do. Children are killed first: the kernel sends SIGHUP
    and SIGCONT to a stopped group that loses its last parent in the session.
    """
    stopped: list[int] = []
    while running := [pid for pid in find() if pid not in stopped]:
        signal_each(running, signal.SIGSTOP)
        stopped += running
    signal_each(stopped[::-1], signal.SIGKILL)


def signal_each(pids: Sequence[int], number: int) -> None:
    """Signal processes in this order; skips those that are gone."""
    for pid in pids:
        _signal(pid, number)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
