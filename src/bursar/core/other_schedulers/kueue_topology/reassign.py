"""Change an assignment in part: replace lost leaves, grow, shrink. What runs stays where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from bursar.core.other_schedulers.kueue_topology.place import place, place_within
from bursar.core.other_schedulers.kueue_topology.request import KueueTopologyRequest, LeafCounts
from bursar.core.other_schedulers.kueue_topology.result import (
    KueueAssignment,
    KueueDomainCount,
    Revision,
)
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import TopologyTree
from bursar.model.jobs.job import SliceLayer


def replace_lost(
    tree: TopologyTree,
    request: KueueTopologyRequest,
    existing: KueueAssignment,
    lost: Collection[str],
    counts: Mapping[str, LeafCounts],
) -> Revision | TopologyMiss:
    """Place only the lost leaves' tasks again, so that the rest of the gang need not move.

    They must land where they keep the request true: in the required domain of the rest, or, where a
    slice was torn, in the domain that holds the rest of it. ``counts`` are what is free beside the
    tasks that stay. ``request.count`` is not read: the lost leaves say how many tasks to place.
    """
    kept = tuple(part for part in existing if part.leaf not in lost)
    stale = find_stale(tree, kept)
    if stale is not None:
        return _stale(request, stale)
    missing = sum(part.tasks for part in existing) - sum(part.tasks for part in kept)
    anchor = _anchor(tree, request, kept, missing)
    if anchor is not None and request.layers and _tears(request.slice_size, missing):
        request = replace(request, layers=_whole_layers(request.layers, missing))
    added = place_within(tree, replace(request, count=missing, leaders=0), counts, anchor)
    if isinstance(added, TopologyMiss):
        return added
    return Revision(assignment=merge(tree, kept, added), added=added)


def grow(
    tree: TopologyTree,
    request: KueueTopologyRequest,
    existing: KueueAssignment,
    counts: Mapping[str, LeafCounts],
) -> Revision | TopologyMiss:
    """Add tasks up to ``request.count``. ``counts`` are what is free beside the existing tasks."""
    stale = find_stale(tree, existing)
    if stale is not None:
        return _stale(request, stale)
    delta = request.count - sum(part.tasks for part in existing)
    added = place(tree, replace(request, count=delta), counts)
    if isinstance(added, TopologyMiss):
        return added
    return Revision(assignment=merge(tree, existing, added), added=added)


def shrink(existing: KueueAssignment, count: int) -> KueueAssignment:
    """Keep the first ``count`` tasks, so that the ranks that stay do not change."""
    kept: list[KueueDomainCount] = []
    left = count
    for part in existing:
        if left <= 0:
            break
        kept.append(replace(part, tasks=min(part.tasks, left)))
        left -= part.tasks
    return tuple(kept)


def merge(tree: TopologyTree, first: KueueAssignment, second: KueueAssignment) -> KueueAssignment:
    """Both assignments as one, by path. Their leaves must all be known."""
    tasks: Counter[str] = Counter()
    leaders: Counter[str] = Counter()
    for part in (*first, *second):
        tasks[part.leaf] += part.tasks
        leaders[part.leaf] += part.leaders
    return tuple(
        KueueDomainCount(leaf=leaf, tasks=tasks[leaf], leaders=leaders[leaf])
        for leaf in sorted(tasks, key=lambda leaf: (tree.leaf_number(leaf) or 0, leaf))
    )


def find_stale(tree: TopologyTree, assignment: KueueAssignment) -> str | None:
    """A leaf the assignment names that the tree no longer has."""
    return next((part.leaf for part in assignment if tree.leaf_number(part.leaf) is None), None)


def _stale(request: KueueTopologyRequest, leaf: str) -> TopologyMiss:
    size = max(1, request.slice_size)
    return TopologyMiss(
        reason=MissReason.STALE_LEAF,
        level=request.required or request.preferred or "",
        slices_wanted=request.count // size,
        slice_size=size,
        leaf=leaf,
    )


def _anchor(
    tree: TopologyTree, request: KueueTopologyRequest, kept: KueueAssignment, missing: int
) -> range | None:
    """The leaves a replacement must come from; None when it may come from anywhere."""
    if not kept:
        return None
    if request.layers and _tears(request.slice_size, missing):
        torn = next(layer for layer in reversed(request.layers) if _tears(layer.size, missing))
        return _torn_domain(tree, kept, missing, torn)
    level = None if request.required is None else tree.level_index(request.required)
    first = tree.leaf_number(kept[0].leaf)
    if level is None or first is None:
        return None
    return tree.leaves_under(tree.ancestor(first, level), level)


def _torn_domain(
    tree: TopologyTree, kept: KueueAssignment, missing: int, layer: SliceLayer
) -> range | None:
    """The first domain that has whole slices again once it gets the missing tasks."""
    level = tree.level_index(layer.level)
    if level is None:
        return None
    tasks: Counter[int] = Counter()
    for part in kept:
        leaf = tree.leaf_number(part.leaf)
        if leaf is not None:
            tasks[tree.ancestor(leaf, level)] += part.tasks
    for domain in sorted(tasks):
        if not _tears(layer.size, tasks[domain] + missing):
            return tree.leaves_under(domain, level)
    return None


def _whole_layers(layers: tuple[SliceLayer, ...], missing: int) -> tuple[SliceLayer, ...]:
    """The innermost layer the missing tasks still make whole slices of, alone; or none."""
    whole = [layer for layer in layers if not _tears(layer.size, missing)]
    return tuple(whole[-1:])


def _tears(size: int, tasks: int) -> bool:
    """Whether so many tasks leave a slice incomplete."""
    return size > 0 and tasks % size != 0
