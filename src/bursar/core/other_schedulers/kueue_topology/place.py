"""Place one task group: count, find the level, hand out, and check that nothing is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bursar.core.other_schedulers.kueue_topology.assign import KueueDomainShare, descend
from bursar.core.other_schedulers.kueue_topology.balanced import find_balanced_fit
from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity, measure
from bursar.core.other_schedulers.kueue_topology.request import (
    KueueResolvedRequest,
    KueueTopologyRequest,
    LeafCounts,
    resolve_for_kueue,
)
from bursar.core.other_schedulers.kueue_topology.result import KueueAssignment, KueueDomainCount
from bursar.core.other_schedulers.kueue_topology.search import find_fit
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import TopologyTree


def place(
    tree: TopologyTree, request: KueueTopologyRequest, counts: Mapping[str, LeafCounts]
) -> KueueAssignment | TopologyMiss:
    """Where the gang runs, by path; or what is missing. Leaves without counts take nothing."""
    return place_within(tree, request, counts, None)


def place_within(
    tree: TopologyTree,
    request: KueueTopologyRequest,
    counts: Mapping[str, LeafCounts],
    leaves: range | None,
) -> KueueAssignment | TopologyMiss:
    """As :func:`place`, on some neighbouring leaves only."""
    shape = resolve_for_kueue(tree, request)
    if isinstance(shape, TopologyMiss):
        return shape
    room = measure(tree, shape, counts, leaves)
    if request.balanced and request.preferred is not None:
        even = _place_evenly(tree, room, shape)
        if even is not None:
            return even
    fit = find_fit(tree, room, shape)
    if isinstance(fit, TopologyMiss):
        return fit
    placed = _whole(tree, shape, descend(tree, room, shape, fit))
    if placed is not None:
        return placed
    return TopologyMiss(
        reason=MissReason.NOT_ENOUGH_CAPACITY,
        level=tree.levels[-1],
        slices_wanted=shape.slices,
        slice_size=shape.slice_size,
    )


def _place_evenly(
    tree: TopologyTree, room: KueueDomainCapacity, shape: KueueResolvedRequest
) -> KueueAssignment | None:
    """The even placement, if there is one; the ordinary search answers otherwise."""
    found = find_balanced_fit(tree, room, shape)
    if found is None:
        return None
    fit, settled_room = found
    return _whole(tree, shape, descend(tree, settled_room, shape, fit))


def _whole(
    tree: TopologyTree, shape: KueueResolvedRequest, shares: Iterable[KueueDomainShare] | None
) -> KueueAssignment | None:
    """The shares as an assignment, only if together they are the whole gang."""
    if shares is None:
        return None
    placed = tuple(
        KueueDomainCount(leaf=tree.leaf_id(share.domain), tasks=share.tasks, leaders=share.leaders)
        for share in sorted(shares, key=lambda share: share.domain)
        if share.tasks or share.leaders
    )
    tasks = sum(part.tasks for part in placed)
    leaders = sum(part.leaders for part in placed)
    return placed if (tasks, leaders) == (shape.count, shape.leaders) else None
