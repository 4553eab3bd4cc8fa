"""Limits CPU and memory: by control groups if they are delegated to us, else by polling memory.

Polling limits memory only, and late (twice a second). Address-space limits are no alternative: CUDA
maps many times what it uses. CPU is then shared fairly between sessions by the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bursar.engines.local.supervisor import proc
from bursar.engines.local.supervisor.attempt_plan import TaskPlan

CPU_PERIOD_US = 100_000


class NodeLimit(NamedTuple):
    """Limit of all tasks of one attempt on one node; 0 means no limit."""

    node: str
    cpu_milli: int
    memory_bytes: int


def limits_of(tasks: Iterable[TaskPlan]) -> dict[int, NodeLimit]:
    """Limits by node rank."""
    return {
        task.node_rank: NodeLimit(task.node, task.cpu_milli, task.memory_mib << 20)
        for task in tasks
    }


def write_gib(count: int) -> str:
    """``5.1 GiB``, ``512 MiB``."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


class MemoryWatch:
    """Adds up the memory of the processes of each node."""

    def __init__(self, limits: Mapping[int, NodeLimit]) -> None:
        self._limits = {rank: limit for rank, limit in limits.items() if limit.memory_bytes}

    @property
    def is_needed(self) -> bool:
        return bool(self._limits)

    def excess(self, node_of_session: Mapping[int, int]) -> str:
        """A message about the node that is over its limit, or "".

        Resident memory counts pages shared by forked workers once for each of them, so a node that
        seems over its limit is measured again exactly.
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
                return memory_exceeded(used, limit)
        return ""


def memory_exceeded(used: int, limit: NodeLimit) -> str:
    """The message for the user."""
    amounts = f"used {write_gib(used)} of {write_gib(limit.memory_bytes)} memory"
    return f"{amounts} on node {limit.node}; request more memory or use less"


class ControlGroup:
    """A cgroup v2 group for one attempt on one node, under a folder delegated to us."""

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
        """Write a setting; False if its controller is not delegated to us."""
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
        """Join the group; called by a task before it executes the user's program."""
        self._set("cgroup.procs", str(os.getpid()))

    @property
    def bounds_memory(self) -> bool:
        return os.path.exists(os.path.join(self.path, "memory.max"))

    def excess(self) -> str:
        """A message if the kernel killed the group for lack of memory, or ""."""
        try:
            with open(os.path.join(self.path, "memory.events"), encoding="ascii") as file:
                events = dict(line.split() for line in file)
        except (OSError, ValueError):
            return ""
        if int(events.get("oom_kill", "0")) == 0:
            return ""
        return memory_exceeded(self._limit.memory_bytes, self._limit)

    def kill(self) -> None:
        """Kill every process in the group."""
        self._set("cgroup.kill", "1")

    def remove(self) -> None:
        """Remove the group if it is empty."""
        try:
            os.rmdir(self.path)
        except OSError:
            return
