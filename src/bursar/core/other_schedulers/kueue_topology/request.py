"""A Kueue workload's topology request, resolved against one tree."""

from __future__ import annotations

from dataclasses import dataclass, fields

from bursar.core.topology.request import ResolvedRequest, TopologyRequest, resolve
from bursar.core.topology.result import TopologyMiss
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafCounts:
    """How much of one task group fits on a leaf now.

    ``tasks_with_leader`` is how many tasks fit together with the leader; it equals ``tasks``
    where no leader is requested or the leader does not fit (``leaders`` is 0). ``affinity`` is the
    leaf's score for this task group: a higher score outweighs better packing.
    """

    tasks: int
    tasks_with_leader: int = 0
    leaders: int = 0
    affinity: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueTopologyRequest(TopologyRequest):
    """One task group, with its leader if it has one.

    ``balanced`` spreads a preferred placement evenly over the fewest domains that hold it;
    ``least_free`` makes an unconstrained one fill the fullest domains first.
    """

    leaders: int = 0
    balanced: bool = False
    least_free: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueResolvedRequest(ResolvedRequest):
    """The request with its levels as indexes of one tree."""

    leaders: int
    least_free: bool


def resolve_for_kueue(
    tree: TopologyTree, request: KueueTopologyRequest
) -> KueueResolvedRequest | TopologyMiss:
    """Validate the request against the tree's levels, before counting capacity."""
    shape = resolve(tree, request)
    if isinstance(shape, TopologyMiss):
        return shape
    return KueueResolvedRequest(
        **{each.name: getattr(shape, each.name) for each in fields(shape)},
        leaders=request.leaders,
        least_free=shape.unconstrained and request.least_free,
    )
