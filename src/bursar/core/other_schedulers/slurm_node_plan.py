"""Slurm's backfill plan: which identical nodes are free when.

Time from now on is cut into intervals in which the set of free nodes does not change, as Slurm's
backfill does. A job that cannot start now is given the earliest time at which the *same* nodes
are free for its whole run, and those nodes are reserved in the plan. Jobs of lower priority only
see the remaining nodes, so a backfilled job can never delay one that was planned before it.

Sets of nodes are integers used as bit sets: intersecting five thousand nodes is one operation.
Counts alone are not enough, because ten nodes free in each of two intervals may be different nodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

NO_LICENSES: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """A job's request: whole nodes for a duration, and counts of licenses."""

    job: str
    nodes: int
    duration_ms: int
    licenses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """The planned start and nodes of a job. ``nodes`` are indices, lowest first."""

    job: str
    start_ms: int
    nodes: tuple[int, ...]


class NodePlan:
    """The free nodes of every interval from ``begins_ms`` on.

    Starts are searched up to ``window_ms`` ahead. Ends are rounded up to ``resolution_ms``, so that
    jobs that end at about the same time free their nodes together and the plan has few intervals.
    """

    def __init__(
        self,
        total: int,
        begins_ms: int,
        resolution_ms: int,
        window_ms: int,
        licenses: Mapping[str, int] = NO_LICENSES,
    ) -> None:
        self.total = total
        self.begins_ms = begins_ms
        self.last_start_ms = begins_ms + window_ms
        self._resolution_ms = max(resolution_ms, 1)
        # Parallel lists: interval i runs from _begins_ms[i] to the next; the last never ends.
        self._begins_ms = [begins_ms]
        self._free_nodes = [(1 << total) - 1]
        self._free_licenses = [dict(licenses)]
        self._not_before_ms: dict[tuple[object, ...], int] = {}

    def earliest_start(
        self, count: int, duration_ms: int, licenses: Mapping[str, int] = NO_LICENSES
    ) -> int | None:
        """The earliest time from which ``count`` nodes stay free long enough, within the window.

        A plan only fills up, so the result for one shape never moves earlier. It is cached: a
        backlog of identical jobs is planned in one pass over the intervals, not one pass each.
        """
        shape = (count, duration_ms, *sorted(licenses.items()))
        first = bisect_left(self._begins_ms, self._not_before_ms.get(shape, self.begins_ms))
        while first < len(self._begins_ms):
            start_ms = self._begins_ms[first]
            if start_ms > self.last_start_ms:
                break
            blocked = self._first_blocked(first, count, self._end(start_ms, duration_ms), licenses)
            if blocked is None:
                self._not_before_ms[shape] = start_ms
                return start_ms
            first = blocked
        self._not_before_ms[shape] = self.last_start_ms + 1
        return None

    def reserve(
        self,
        start_ms: int,
        duration_ms: int,
        count: int,
        licenses: Mapping[str, int] = NO_LICENSES,
    ) -> tuple[int, ...]:
        """Reserve the ``count`` lowest nodes that are free throughout, and return them.

        The start must be a result of :meth:`earliest_start`, or the beginning of the plan for
        running jobs. Raises ``ValueError`` if too few nodes are free.
        """
        start_ms = max(start_ms, self.begins_ms)
        end_ms = self._end(start_ms, duration_ms)
        first = self._split_at(start_ms)
        after = self._split_at(end_ms)
        free = self._free_nodes[first]
        for i in range(first, after):
            free &= self._free_nodes[i]
        if free.bit_count() < count:
            raise ValueError(f"{count} nodes from {start_ms} to {end_ms}: {free.bit_count()} free")
        nodes, reserved = _lowest_nodes(free, count)
        for i in range(first, after):
            self._free_nodes[i] &= ~reserved
            for name in sorted(licenses):
                self._free_licenses[i][name] = self._free_licenses[i].get(name, 0) - licenses[name]
        return nodes

    def free_at(self, when_ms: int) -> int:
        """How many nodes are free at a time."""
        return self._free_nodes[bisect_right(self._begins_ms, when_ms) - 1].bit_count()

    def _first_blocked(
        self, first: int, count: int, end_ms: int, licenses: Mapping[str, int]
    ) -> int | None:
        """``None`` if a run from interval ``first`` to ``end_ms`` fits; else the next interval to try.

        If one interval alone is too full, no start up to it can work and the search resumes after
        it. Otherwise too few nodes are free *throughout*, and starting one interval later may work.
        """
        free = self._free_nodes[first]
        for i in range(first, len(self._begins_ms)):
            if i > first and self._begins_ms[i] >= end_ms:
                break
            free_here = self._free_nodes[i]
            if free_here.bit_count() < count or self._lacks_licenses(i, licenses):
                return i + 1
            free &= free_here
            if free.bit_count() < count:
                return first + 1
        return None

    def _lacks_licenses(self, i: int, licenses: Mapping[str, int]) -> bool:
        free = self._free_licenses[i]
        return any(free.get(name, 0) < wanted for name, wanted in licenses.items())

    def _end(self, start_ms: int, duration_ms: int) -> int:
        """The end of a run, rounded up to the resolution; a run takes at least 1 ms."""
        step = self._resolution_ms
        return -(-(start_ms + max(duration_ms, 1)) // step) * step

    def _split_at(self, when_ms: int) -> int:
        """The index of the interval that begins at ``when_ms``; splits one if necessary."""
        i = bisect_left(self._begins_ms, when_ms)
        if i == len(self._begins_ms) or self._begins_ms[i] != when_ms:
            self._begins_ms.insert(i, when_ms)
            self._free_nodes.insert(i, self._free_nodes[i - 1])
            self._free_licenses.insert(i, dict(self._free_licenses[i - 1]))
        return i


def plan_in_order(
    plan: NodePlan, requests: Iterable[NodeRequest], max_jobs_tested: int
) -> list[PlannedRun]:
    """Plan jobs in the given order; those at the beginning of the plan start now.

    The result omits jobs after the first ``max_jobs_tested`` and jobs without a start within the
    window, which reserve nothing.
    """
    runs = []
    for tested, request in enumerate(requests):
        if tested == max_jobs_tested:
            break
        start_ms = plan.earliest_start(request.nodes, request.duration_ms, request.licenses)
        if start_ms is not None:
            nodes = plan.reserve(start_ms, request.duration_ms, request.nodes, request.licenses)
            runs.append(PlannedRun(job=request.job, start_ms=start_ms, nodes=nodes))
    return runs


def _lowest_nodes(free: int, count: int) -> tuple[tuple[int, ...], int]:
    """The ``count`` lowest nodes of a set, as indices and as a bit set."""
    nodes = []
    remaining = free
    for _ in range(count):
        lowest = remaining & -remaining
        nodes.append(lowest.bit_length() - 1)
        remaining ^= lowest
    return tuple(nodes), free ^ remaining
