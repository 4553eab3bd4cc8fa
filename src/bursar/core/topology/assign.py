"""Distributes tasks over the chosen domains, level by level down to the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bursar.core.topology.domain_capacity import DomainCapacity
from bursar.core.topology.request import ResolvedRequest
from bursar.core.topology.search import Fit, by_capacity, tightest
from bursar.core.topology.tree import TopologyTree


class DomainShare(NamedTuple):
    """The tasks assigned to one domain."""

    domain: int
    tasks: int


def descend(
    tree: TopologyTree, capacity: DomainCapacity, shape: ResolvedRequest, fit: Fit
) -> list[DomainShare] | None:
    """The leaves' shares; None if the children do not fit what their parent counted.

    Above the slice level all children are pooled, which needs fewer domains than each parent's share. A slice
    must not be split, so below the slice level each parent's share stays in its children.
    """
    least_free = shape.unconstrained
    shares = _fill(
        capacity.slices, fit.domains, shape.count, shape.slice_size, tight=not least_free
    )
    for level in range(fit.level, tree.bottom):
        if shares is None:
            return None
        if level < shape.slice_level:
            pool = [child for share in shares for child in tree.children(share.domain)]
            order = by_capacity(capacity, pool, least_free=least_free)
            shares = _fill(
                capacity.slices, order, shape.count, shape.slice_size, tight=not least_free
            )
        else:
            size = shape.inner_sizes[level + 1]
            shares = _share_out(tree, capacity, shares, size, least_free=least_free)
    return shares


def _share_out(
    tree: TopologyTree,
    capacity: DomainCapacity,
    shares: list[DomainShare],
    size: int,
    *,
    least_free: bool,
) -> list[DomainShare] | None:
    """Split each domain's share among its own children, in groups of ``size`` tasks."""
    parts: list[DomainShare] = []
    for share in shares:
        order = by_capacity(capacity, tree.children(share.domain), least_free=least_free)
        free = capacity.tasks
        if size > 1:
            capacity.slice_up(order, size)
            free = capacity.slices
        part = _fill(free, order, share.tasks, size, tight=not least_free)
        if part is None:
            return None
        parts += part
    return parts


def _fill(
    free: list[int], domains: Sequence[int], tasks: int, size: int, *, tight: bool
) -> list[DomainShare] | None:
    """Fill domains in order, each completely; the last is the tightest that fits the rest.

    ``free`` counts groups of ``size`` tasks; ``tight`` is off where the fullest domains go first.
    """
    groups = tasks // size
    shares: list[DomainShare] = []
    for position, domain in enumerate(domains):
        if free[domain] >= groups:
            if tight:
                domain = tightest(domains[position:], free, groups)
            shares.append(DomainShare(domain, groups * size))
            return shares
        if free[domain]:
            shares.append(DomainShare(domain, free[domain] * size))
            groups -= free[domain]
    return None
