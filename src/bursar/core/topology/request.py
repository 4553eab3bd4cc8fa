"""A topology request, and the same resolved against one tree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import TopologyTree
from bursar.model.jobs.job import SliceLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """One task group.

    ``required``: all tasks in one domain of that level, or none. ``preferred``: the same if
    possible, then each wider level, then spread. Neither: anywhere. ``layers`` go outermost first
    and each size divides the one before.
    """

    count: int
    required: str | None = None
    preferred: str | None = None
    layers: tuple[SliceLayer, ...] = ()

    @property
    def unconstrained(self) -> bool:
        return self.required is None and self.preferred is None

    @property
    def slice_size(self) -> int:
        return self.layers[0].size if self.layers else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequest:
    """A request with its levels as indexes of one tree; ``inner_sizes`` has one size per level."""

    count: int
    level: int
    slice_level: int
    slice_size: int
    inner_sizes: tuple[int, ...]
    required: bool
    unconstrained: bool

    @property
    def slices(self) -> int:
        return self.count // self.slice_size


def resolve(tree: TopologyTree, request: TopologyRequest) -> ResolvedRequest | TopologyMiss:
    """Check a request against the tree's levels."""
    level_name = _requested_level(tree, request)
    slice_name = request.layers[0].level if request.layers else tree.levels[-1]
    indexes = {
        name: tree.level_index(name)
        for name in (level_name, slice_name, *(layer.level for layer in request.layers))
    }
    for name, index in indexes.items():
        if index is None:
            return _refuse(request, MissReason.UNKNOWN_LEVEL, name)
    level, slice_level = tree.levels.index(level_name), tree.levels.index(slice_name)
    if level > slice_level or request.slice_size < 1 or request.count % request.slice_size:
        return _refuse(request, MissReason.LAYERS_DISAGREE, slice_name)
    inner_sizes = _inner_sizes(tree, request)
    if isinstance(inner_sizes, TopologyMiss):
        return inner_sizes
    return ResolvedRequest(
        count=request.count,
        level=level,
        slice_level=slice_level,
        slice_size=request.slice_size,
        inner_sizes=inner_sizes,
        required=request.required is not None,
        unconstrained=request.unconstrained,
    )


def _requested_level(tree: TopologyTree, request: TopologyRequest) -> str:
    """The level to search first; slices without a requested level start at the top."""
    named = request.required or request.preferred
    return named or (tree.levels[0] if request.layers else tree.levels[-1])


def _inner_sizes(tree: TopologyTree, request: TopologyRequest) -> tuple[int, ...] | TopologyMiss:
    """The group size at each level below the outermost layer; 1 where there is none.

    Levels between two layers have the inner one's size.
    """
    sizes = [1] * len(tree.levels)
    for outer, inner in pairwise(request.layers):
        start, stop = tree.levels.index(outer.level) + 1, tree.levels.index(inner.level) + 1
        if start >= stop or inner.size < 1 or outer.size % inner.size:
            return _refuse(request, MissReason.LAYERS_DISAGREE, inner.level)
        sizes[start:stop] = [inner.size] * (stop - start)
    return tuple(sizes)


def _refuse(request: TopologyRequest, reason: MissReason, level: str) -> TopologyMiss:
    size = max(1, request.slice_size)
    return TopologyMiss(
        reason=reason, level=level, slices_wanted=request.count // size, slice_size=size
    )
