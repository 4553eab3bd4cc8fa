"""What a workload asks of the topology in Kueue, resolved against one tree."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.core.topology.request import ResolvedRequest, TopologyRequest, resolve
from bursar.core.topology.result import TopologyMiss
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCounts:
    """How much of one task group a leaf could take right now, if nothing else were placed.

    ``tasks_with_leader`` is what is left for tasks once the leader is there; it equals ``tasks``
    where no leader is asked for or the leader does not fit (``leaders`` is 0). ``affinity`` is the
    leaf's score with this task group: a higher score is preferred over any better packing.
    """

    tasks: int
    tasks_with_leader: int = 0
    leaders: int = 0
    affinity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueTopologyRequest(TopologyRequest):
    """One task group, with its leader if it has one.

    ``balanced`` evens a preferred placement out over as few domains as hold it; ``least_free`` makes
    an unconstrained one fill the fullest domains first.
    """

    leaders: int = 0
    balanced: bool = False
    least_free: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueResolvedRequest(ResolvedRequest):
    """The same with its levels as indexes of one tree."""

    leaders: int
    least_free: bool


def resolve_for_kueue(
    tree: TopologyTree, request: KueueTopologyRequest
) -> KueueResolvedRequest | TopologyMiss:
    """Check the request against the tree's levels before any counting is done."""
    shape = resolve(tree, request)
    if isinstance(shape, TopologyMiss):
        return shape
    return KueueResolvedRequest(
        count=shape.count,
        level=shape.level,
        slice_level=shape.slice_level,
        slice_size=shape.slice_size,
        inner_sizes=shape.inner_sizes,
        required=shape.required,
        unconstrained=shape.unconstrained,
        leaders=request.leaders,
        least_free=shape.unconstrained and request.least_free,
    )
