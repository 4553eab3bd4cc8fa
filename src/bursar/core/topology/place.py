"""Places one task group, all tasks or none."""

from __future__ import annotations

from collections.abc import Mapping

from bursar.core.topology.assign import descend
from bursar.core.topology.domain_capacity import measure
from bursar.core.topology.request import TopologyRequest, resolve
from bursar.core.topology.result import Assignment, DomainCount, MissReason, TopologyMiss
from bursar.core.topology.search import find_fit, miss
from bursar.core.topology.tree import TopologyTree


def place(
    tree: TopologyTree, request: TopologyRequest, counts: Mapping[str, int]
) -> Assignment | TopologyMiss:
    """The tasks on each leaf, by path; or what is missing.

    ``counts`` is how many tasks fit on each leaf; none fit on a leaf without an entry.
    """
    shape = resolve(tree, request)
    if isinstance(shape, TopologyMiss):
        return shape
    capacity = measure(tree, shape, counts)
    fit = find_fit(tree, capacity, shape)
    if isinstance(fit, TopologyMiss):
        return fit
    shares = descend(tree, capacity, shape, fit)
    if shares is not None and sum(share.tasks for share in shares) == shape.count:
        return tuple(
            DomainCount(leaf=tree.leaf_id(share.domain), tasks=share.tasks)
            for share in sorted(shares)
            if share.tasks
        )
    return miss(tree, shape, tree.bottom, MissReason.NOT_ENOUGH_CAPACITY)
