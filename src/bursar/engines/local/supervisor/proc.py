"""Reads processes from ``/proc`` and kills process trees."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from typing import NamedTuple

_SET_PARENT_DEATH_SIGNAL, _SET_NAME, _SET_CHILD_SUBREAPER = 1, 15, 36
_libc = ctypes.CDLL(None, use_errno=True)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


class Process(NamedTuple):
    """One process of ``/proc/<pid>/stat``. Process id and start time identify a process uniquely."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    is_zombie: bool


def read_process(pid: int) -> Process | None:
    """A process by id, or None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command name is in brackets and may contain brackets, so parse after the last one.
    rest = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]), rest[0] in b"ZX")


def all_processes() -> list[Process]:
    """All processes of the machine."""
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in map(read_process, pids) if process is not None]


def descendants(root: int) -> list[Process]:
    """All descendants of a process."""
    children_of = _listed_children if _KERNEL_LISTS_CHILDREN else _searched_children()
    descendants: list[Process] = []
    pending = [root]
    while pending:
        for child in children_of(pending.pop()):
            descendants.append(child)
            pending.append(child.pid)
    return descendants


def _listed_children(pid: int) -> list[Process]:
    """Children as most kernels list them: the cost does not depend on other processes."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass
    return [child for child in map(read_process, pids) if child is not None]


def _searched_children() -> Callable[[int], list[Process]]:
    """For other kernels: index all processes by parent, once."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    return lambda pid: children.get(pid, [])


def is_alive(pid: int, start: int) -> bool:
    """Whether this process runs, and not another one that reuses its id."""
    process = read_process(pid)
    return process is not None and process.start == start and not process.is_zombie


def kill(processes: Iterable[Process]) -> int:
    """Send SIGKILL; returns the number of processes that were not zombies."""
    count = 0
    for process in processes:
        if process.is_zombie:
            continue
        count += 1
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return count


def find_orphans(key: str, leaders: Iterable[tuple[int, int]]) -> list[Process]:
    """Processes of an attempt whose attempt process was killed, by environment key or by session.

    ``leaders`` are the tasks (process id, start time); each leads its own session. A session whose
    leader's id has been reused by another process is ignored.
    """
    wanted = f"BURSAR_ATTEMPT_KEY={key}".encode() if key else b"\0"
    starts = dict(leaders)
    reused = {pid for pid, start in starts.items() if _is_reused(pid, start)}
    return [
        process
        for process in all_processes()
        if not process.is_zombie
        and process.pid != os.getpid()
        and (
            (process.session in starts and process.session not in reused)
            or wanted in _environment(process.pid)
        )
    ]


def _is_reused(pid: int, start: int) -> bool:
    process = read_process(pid)
    return process is not None and process.start != start


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def resident_bytes(pid: int) -> int:
    """Resident memory with shared pages counted in full: fast, and an upper bound."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Memory with shared pages divided among their users: exact but slow."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except OSError:
        return resident_bytes(pid)
    return 0


def boot_id() -> str:
    """Id of this boot. Process ids of another boot are meaningless."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def die_with_parent() -> None:
    """Get SIGKILL when the parent ends."""
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the subreaper: orphaned descendants become children of this process, not of init."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def set_process_name(name: str) -> None:
    """Set the name that ``ps`` shows."""
    _libc.prctl(_SET_NAME, name.encode()[:15], 0, 0, 0)
