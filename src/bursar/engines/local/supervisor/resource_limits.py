"""CPU and memory: by control groups where the machine lends us some, by watching where it does not.

Watching bounds memory only, and late (twice a second). Address-space limits are no alternative: CUDA
maps many times what it uses. CPU is then shared by the kernel's own fairness between sessions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bursar.engines.local.supervisor import proc
from bursar.engines.local.supervisor.attempt_plan import TaskPlan

CPU_PERIOD_US = 100_000


class NodeLimit(NamedTuple):
    """What the tasks of one attempt may use together on one node; 0 means no limit."""

    node: str
    cpu_milli: int
    memory_bytes: int


def limits_of(tasks: Iterable[TaskPlan]) -> dict[int, NodeLimit]:
    """By node rank. A group without a memory request leaves its whole node without a limit."""
    found: dict[int, NodeLimit] = {}
    for task in tasks:
        found[task.node_rank] = NodeLimit(task.node, task.cpu_milli, task.memory_mib << 20)
    return found


def write_gib(count: int) -> str:
    """``5.1 GiB``, ``512 MiB``."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


class MemoryWatch:
    """Adds up what the processes of each node hold."""

    def __init__(self, limits: Mapping[int, NodeLimit]) -> None:
        self._limits = {rank: limit for rank, limit in limits.items() if limit.memory_bytes}

    @property
    def is_needed(self) -> bool:
        return bool(self._limits)

    def excess(self, node_of_session: Mapping[int, int]) -> str:
        """What is over its limit, as a sentence, or nothing.

        Resident memory counts pages that forked workers share once for each of them; so what looks
        too much is counted again, properly, before anything is done about it.
        """
        by_node: dict[int, list[int]] = {}
        first = min(self._limits)
        for process in proc.descendants(os.getpid()):
            by_node.setdefault(node_of_session.get(process.session, first), []).append(process.pid)
        for rank, limit in sorted(self._limits.items()):
            pids = by_node.get(rank, ())
            if sum(map(proc.resident_bytes, pids)) <= limit.memory_bytes:
                continue
            used = sum(map(proc.proportional_bytes, pids))
            if used > limit.memory_bytes:
                return too_much(used, limit)
        return ""


def too_much(used: int, limit: NodeLimit) -> str:
    """The sentence a user reads."""
    have, may = write_gib(used), write_gib(limit.memory_bytes)
    return f"used {have} of {may} memory on node {limit.node}; ask for more memory or use less"


class ControlGroup:
    """One group (cgroup v2) for one attempt on one node, under a folder that was delegated to us."""

    def __init__(self, parent: str, name: str, limit: NodeLimit) -> None:
        self.path = os.path.join(parent, name)
        self._limit = limit
        os.makedirs(self.path, exist_ok=True)
        if limit.memory_bytes:
            self._set("memory.max", str(limit.memory_bytes))
            self._set("memory.swap.max", "0")
            self._set("memory.oom.group", "1")
        if limit.cpu_milli:
            quota_us = limit.cpu_milli * CPU_PERIOD_US // 1_000
            self._set("cpu.max", f"{max(quota_us, 1_000)} {CPU_PERIOD_US}")

    def _set(self, name: str, text: str) -> bool:
        """A controller that was not delegated has no such file; its limit is then not ours to set."""
        try:
            fd = os.open(os.path.join(self.path, name), os.O_WRONLY)
        except OSError:
            return False
        try:
            os.write(fd, text.encode())
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def enter(self) -> None:
        """Called by a task before it becomes the user's program."""
        self._set("cgroup.procs", str(os.getpid()))

    @property
    def bounds_memory(self) -> bool:
        return os.path.exists(os.path.join(self.path, "memory.max"))

    def excess(self) -> str:
        """Whether the kernel ended it for want of memory."""
        try:
            with open(os.path.join(self.path, "memory.events"), encoding="ascii") as file:
                events = dict(line.split() for line in file)
        except (OSError, ValueError):
            return ""
        if int(events.get("oom_kill", "0")) == 0:
            return ""
        return too_much(self._limit.memory_bytes, self._limit)

    def kill(self) -> None:
        """Everything in it, also what hid from its parents."""
        self._set("cgroup.kill", "1")

    def remove(self) -> None:
        """Empty groups only; one that is not is left for the next start to find."""
        try:
            os.rmdir(self.path)
        except OSError:
            return
