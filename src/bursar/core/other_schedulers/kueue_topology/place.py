"""Places one task group: counts capacity, finds a level, distributes tasks, checks the total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.assign import KueueDomainShare, descend
from bursar.core.other_schedulers.kueue_topology.balanced import find_balanced_fit
from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity, measure
from bursar.core.other_schedulers.kueue_topology.request import (
    KueueResolvedRequest,
    KueueTopologyRequest,
    LeafCounts,
    resolve_for_kueue,
)
from bursar.core.other_schedulers.kueue_topology.search import find_fit
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.search import miss
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueDomainCount:
    """A leaf's share of a gang. ``tasks`` is 0 where only the leader runs."""

    leaf: str
    tasks: int
    leaders: int = 0


KueueAssignment = tuple[KueueDomainCount, ...]


def place(
    tree: TopologyTree, request: KueueTopologyRequest, counts: Mapping[str, LeafCounts]
) -> KueueAssignment | TopologyMiss:
    """The leaves where the gang runs, in tree order, or why it does not fit.

    Leaves without counts have no capacity.
    """
    return place_within(tree, request, counts, None)


def place_within(
    tree: TopologyTree,
    request: KueueTopologyRequest,
    counts: Mapping[str, LeafCounts],
    leaves: range | None,
) -> KueueAssignment | TopologyMiss:
    """As :func:`place`, restricted to a range of adjacent leaves."""
    shape = resolve_for_kueue(tree, request)
    if isinstance(shape, TopologyMiss):
        return shape
    capacity = measure(tree, shape, counts, leaves)
    if request.balanced and request.preferred is not None:
        even = _place_evenly(tree, capacity, shape)
        if even is not None:
            return even
    fit = find_fit(tree, capacity, shape)
    if isinstance(fit, TopologyMiss):
        return fit
    placed = _complete_assignment(tree, shape, descend(tree, capacity, shape, fit))
    if placed is not None:
        return placed
    return miss(tree, shape, tree.bottom, MissReason.NOT_ENOUGH_CAPACITY)


def _place_evenly(
    tree: TopologyTree, capacity: KueueDomainCapacity, shape: KueueResolvedRequest
) -> KueueAssignment | None:
    """The even placement; None if there is none."""
    balanced = find_balanced_fit(tree, capacity, shape)
    if balanced is None:
        return None
    fit, reserved = balanced
    return _complete_assignment(tree, shape, descend(tree, reserved, shape, fit))


def _complete_assignment(
    tree: TopologyTree, shape: KueueResolvedRequest, shares: Iterable[KueueDomainShare] | None
) -> KueueAssignment | None:
    """The shares as an assignment; None if they do not add up to the whole gang."""
    if shares is None:
        return None
    placed = tuple(
        KueueDomainCount(leaf=tree.leaf_id(share.domain), tasks=share.tasks, leaders=share.leaders)
        for share in sorted(shares, key=lambda share: share.domain)
        if share.tasks or share.leaders
    )
    tasks = sum(count.tasks for count in placed)
    leaders = sum(count.leaders for count in placed)
    return placed if (tasks, leaders) == (shape.count, shape.leaders) else None
