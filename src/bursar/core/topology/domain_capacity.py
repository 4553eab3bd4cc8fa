"""The capacity of each domain, summed from the leaves; used for one placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.core.topology.request import ResolvedRequest
from bursar.core.topology.tree import TopologyTree


@dataclass(slots=True, kw_only=True)
class DomainCapacity:
    """The tasks and whole slices that fit in each domain.

    Below the slice level ``slices`` stay 0 until a layer there needs them.
    """

    tasks: list[int]
    slices: list[int]

    def slice_up(self, domains: Iterable[int], size: int) -> None:
        """Count whole groups of ``size`` tasks in some domains of one level."""
        for domain in domains:
            self.slices[domain] = self.tasks[domain] // size


def measure(
    tree: TopologyTree, shape: ResolvedRequest, counts: Mapping[str, int]
) -> DomainCapacity:
    """Fill the leaves from ``counts`` and sum them up, level by level."""
    capacity = DomainCapacity(tasks=[0] * tree.size, slices=[0] * tree.size)
    for leaf, leaf_id in enumerate(tree.leaf_ids, start=tree.leaf_start):
        capacity.tasks[leaf] = counts.get(leaf_id, 0)
    for level in range(tree.bottom, -1, -1):
        domains = tree.domains(level)
        if level < tree.bottom:
            size = shape.inner_sizes[level + 1]
            for domain in domains:
                add_children(capacity, domain, tree.children(domain), size)
        if level == shape.slice_level:
            capacity.slice_up(domains, shape.slice_size)
    return capacity


def add_children(capacity: DomainCapacity, domain: int, children: range, size: int) -> None:
    """Sum the children; only whole groups of ``size`` tasks can be placed in them."""
    where = slice(children.start, children.stop)
    tasks = capacity.tasks[where]
    capacity.tasks[domain] = sum(tasks) if size == 1 else sum(one // size * size for one in tasks)
    capacity.slices[domain] = sum(capacity.slices[where])
