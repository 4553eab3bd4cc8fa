"""Processes as Linux shows them: who is whose child, since when, and how to end all of them."""

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
    """One line of ``/proc/<pid>/stat``. A process id with its start time names one process for good."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    is_zombie: bool


def look(pid: int) -> Process | None:
    """One process, or None when there is none of that id."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command's name is in brackets and may contain anything, so what follows the last one counts.
    rest = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]), rest[0] in b"ZX")


def everything() -> list[Process]:
    """Every process there is."""
    seen = (look(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in seen if process is not None]


def descendants(root: int) -> list[Process]:
    """Children, their children and so on."""
    children_of = _listed_children if _KERNEL_LISTS_CHILDREN else _searched_children()
    found: list[Process] = []
    waiting = [root]
    while waiting:
        for child in children_of(waiting.pop()):
            found.append(child)
            waiting.append(child.pid)
    return found


def _listed_children(pid: int) -> list[Process]:
    """As most kernels list them: what it costs does not depend on what else runs on the machine."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                pids += map(int, file.read().split())
    except OSError:
        pass
    return [child for child in map(look, pids) if child is not None]


def _searched_children() -> Callable[[int], list[Process]]:
    """For a kernel that does not: all processes, once."""
    children: dict[int, list[Process]] = {}
    for process in everything():
        children.setdefault(process.parent, []).append(process)
    return lambda pid: children.get(pid, [])


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process runs, and not another that got its id."""
    process = look(pid)
    return process is not None and process.start == start and not process.is_zombie


def kill(processes: Iterable[Process]) -> int:
    """End them at once; how many there were to end."""
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
    """What still runs of an attempt whose keeper is gone: by its key in the environment, or its sessions.

    ``leaders`` are the tasks (process id, start time); each led a session of its own. A session whose
    leader's id now belongs to another process is not ours any more.
    """
    wanted = f"BURSAR_ATTEMPT_KEY={key}".encode() if key else b"\0"
    starts = dict(leaders)
    reused = {pid for pid, start in starts.items() if _is_another(pid, start)}
    return [
        process
        for process in everything()
        if not process.is_zombie
        and process.pid != os.getpid()
        and (
            (process.session in starts and process.session not in reused)
            or wanted in _environment(process.pid)
        )
    ]


def _is_another(pid: int, start: int) -> bool:
    process = look(pid)
    return process is not None and process.start != start


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def resident_bytes(pid: int) -> int:
    """Memory that is mapped in, shared pages counted in full: quick, and never too little."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Memory with shared pages divided among those who share them: right, and slow."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) << 10
    except OSError:
        return resident_bytes(pid)
    return 0


def boot_id() -> str:
    """Process ids of another boot mean nothing."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def die_with_parent() -> None:
    """SIGKILL when the parent ends, whatever ends it."""
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process, not of init."""
    _libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def call_me(name: str) -> None:
    """What ``ps`` shows."""
    _libc.prctl(_SET_NAME, name.encode()[:15], 0, 0, 0)
