"""The undo log of a draft.

A cycle works on the live state instead of a copy and undoes its changes in reverse order. So its cost grows
with what it changes, and for its callers it is a pure function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import PoolState
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.fleet.gpu import Layout
from bursar.model.jobs.attempt import Task
from bursar.model.tenants.tenant import FlavorResource


class Journal:
    """Applies changes and records how to undo them."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    @property
    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._undo)

    def roll_back(self, mark: int = 0) -> None:
        """Undo everything since a mark, last change first."""
        undo = self._undo
        while len(undo) > mark:
            action, arguments = undo.pop()
            action(*arguments)

    def occupy(self, pool: PoolState, task: Task, holder: str) -> None:
        pool.occupy(task, holder)
        self._undo.append((pool.vacate, (task, holder)))

    def vacate(self, pool: PoolState, task: Task, holder: str) -> None:
        pool.vacate(task, holder)
        self._undo.append((pool.occupy, (task, holder)))

    def partition(self, pool: PoolState, node: NodeState, gpu: int, layout: Layout) -> None:
        before = node.devices[gpu].layout
        pool.partition(node, gpu, layout)
        self._undo.append((pool.partition, (node, gpu, before)))

    def close(self, pool: PoolState, node: NodeState, job_id: str) -> None:
        pool.close(node, job_id)
        self._undo.append((pool.reopen, (node,)))

    def reopen(self, pool: PoolState, node: NodeState) -> None:
        closed_for = node.closed_for
        pool.reopen(node)
        self._undo.append((pool.close, (node, closed_for)))

    def charge(self, quota: QuotaTree, queue: str, request: Mapping[FlavorResource, int]) -> None:
        quota.add_usage(queue, request)
        self._undo.append((quota.remove_usage, (queue, request)))

    def credit(self, quota: QuotaTree, queue: str, request: Mapping[FlavorResource, int]) -> None:
        quota.remove_usage(queue, request)
        self._undo.append((quota.add_usage, (queue, request)))

    def tag(self, node: NodeState, tag: str, change: int) -> None:
        """Count a job that must not share a node with others of its tag."""
        node.tags[tag] = node.tags.get(tag, 0) + change
        self._undo.append((_untag, (node, tag, change)))

    def on_undo(self, action: Callable[..., None], *arguments: object) -> None:
        """Record how to undo any other change, already made."""
        self._undo.append((action, arguments))


def _untag(node: NodeState, tag: str, change: int) -> None:
    node.tags[tag] -= change
