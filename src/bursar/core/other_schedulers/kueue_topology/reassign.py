"""Changes an assignment: replaces lost leaves, grows, shrinks. Running tasks do not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from bursar.core.other_schedulers.kueue_topology.place import (
    KueueAssignment,
    KueueDomainCount,
    place,
    place_within,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueTopologyRequest, LeafCounts
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import TopologyTree
from bursar.model.jobs.job import SliceLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A changed assignment, and the tasks that were added to it."""

    assignment: KueueAssignment
    added: KueueAssignment


def replace_lost(
    tree: TopologyTree,
    request: KueueTopologyRequest,
    existing: KueueAssignment,
    lost: Collection[str],
    counts: Mapping[str, LeafCounts],
) -> Revision | TopologyMiss:
    """Place only the lost leaves' tasks again, so that the rest of the gang need not move.

    The replacements must still satisfy the request: they go to the required domain of the remaining
    tasks, or, if a slice became incomplete, to the domain that holds the rest of it. ``counts`` is
    what is free besides the remaining tasks. ``request.count`` is not read: the number of tasks to
    place is that of the lost leaves.
    """
    remaining = tuple(leaf_count for leaf_count in existing if leaf_count.leaf not in lost)
    stale = find_stale(tree, remaining)
    if stale is not None:
        return _stale_leaf_miss(request, stale)
    missing = sum(leaf_count.tasks for leaf_count in existing) - sum(
        leaf_count.tasks for leaf_count in remaining
    )
    leaves = _replacement_leaves(tree, request, remaining, missing)
    if leaves is not None and request.layers and _leaves_partial_slice(request.slice_size, missing):
        request = replace(request, layers=_innermost_whole_layer(request.layers, missing))
    added = place_within(tree, replace(request, count=missing, leaders=0), counts, leaves)
    if isinstance(added, TopologyMiss):
        return added
    return Revision(assignment=merge(tree, remaining, added), added=added)


def grow(
    tree: TopologyTree,
    request: KueueTopologyRequest,
    existing: KueueAssignment,
    counts: Mapping[str, LeafCounts],
) -> Revision | TopologyMiss:
    """Add tasks up to ``request.count``. ``counts`` is what is free besides the existing tasks."""
    stale = find_stale(tree, existing)
    if stale is not None:
        return _stale_leaf_miss(request, stale)
    delta = request.count - sum(leaf_count.tasks for leaf_count in existing)
    added = place(tree, replace(request, count=delta), counts)
    if isinstance(added, TopologyMiss):
        return added
    return Revision(assignment=merge(tree, existing, added), added=added)


def shrink(existing: KueueAssignment, count: int) -> KueueAssignment:
    """Retain the first ``count`` tasks, so that their ranks do not change."""
    retained: list[KueueDomainCount] = []
    tasks_left = count
    for leaf_count in existing:
        if tasks_left <= 0:
            break
        retained.append(replace(leaf_count, tasks=min(leaf_count.tasks, tasks_left)))
        tasks_left -= leaf_count.tasks
    return tuple(retained)


def merge(tree: TopologyTree, first: KueueAssignment, second: KueueAssignment) -> KueueAssignment:
    """Both assignments as one, in tree order. The tree must have all their leaves."""
    tasks: Counter[str] = Counter()
    leaders: Counter[str] = Counter()
    for leaf_count in (*first, *second):
        tasks[leaf_count.leaf] += leaf_count.tasks
        leaders[leaf_count.leaf] += leaf_count.leaders
    return tuple(
        KueueDomainCount(leaf=leaf, tasks=tasks[leaf], leaders=leaders[leaf])
        for leaf in sorted(tasks, key=lambda leaf: (tree.leaf_number(leaf) or 0, leaf))
    )


def find_stale(tree: TopologyTree, assignment: KueueAssignment) -> str | None:
    """The first leaf of the assignment that the tree no longer has."""
    return next(
        (leaf_count.leaf for leaf_count in assignment if tree.leaf_number(leaf_count.leaf) is None),
        None,
    )


def _stale_leaf_miss(request: KueueTopologyRequest, leaf: str) -> TopologyMiss:
    size = max(1, request.slice_size)
    return TopologyMiss(
        reason=MissReason.STALE_LEAF,
        level=request.required or request.preferred or "",
        slices_wanted=request.count // size,
        slice_size=size,
        leaf=leaf,
    )


def _replacement_leaves(
    tree: TopologyTree, request: KueueTopologyRequest, remaining: KueueAssignment, missing: int
) -> range | None:
    """The leaves that replacements must use; None if any leaf may be used."""
    if not remaining:
        return None
    if request.layers and _leaves_partial_slice(request.slice_size, missing):
        partial = next(
            layer
            for layer in reversed(request.layers)
            if _leaves_partial_slice(layer.size, missing)
        )
        return _completed_domain(tree, remaining, missing, partial)
    level = None if request.required is None else tree.level_index(request.required)
    first = tree.leaf_number(remaining[0].leaf)
    if level is None or first is None:
        return None
    return tree.leaves_under(tree.ancestor(first, level), level)


def _completed_domain(
    tree: TopologyTree, remaining: KueueAssignment, missing: int, layer: SliceLayer
) -> range | None:
    """The leaves of the first domain whose slices the missing tasks complete."""
    level = tree.level_index(layer.level)
    if level is None:
        return None
    tasks: Counter[int] = Counter()
    for leaf_count in remaining:
        leaf = tree.leaf_number(leaf_count.leaf)
        if leaf is not None:
            tasks[tree.ancestor(leaf, level)] += leaf_count.tasks
    for domain in sorted(tasks):
        if not _leaves_partial_slice(layer.size, tasks[domain] + missing):
            return tree.leaves_under(domain, level)
    return None


def _innermost_whole_layer(layers: tuple[SliceLayer, ...], missing: int) -> tuple[SliceLayer, ...]:
    """The innermost layer that the missing tasks fill with whole slices, or none."""
    whole_layers = [layer for layer in layers if not _leaves_partial_slice(layer.size, missing)]
    return tuple(whole_layers[-1:])


def _leaves_partial_slice(size: int, tasks: int) -> bool:
    """Whether ``tasks`` is not a multiple of the slice size."""
    return size > 0 and tasks % size != 0
