"""Hand a request out: over the chosen domains, then level by level down to the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity
from bursar.core.other_schedulers.kueue_topology.domain_order import (
    Demand,
    by_room,
    leader_first,
    tightest,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest
from bursar.core.other_schedulers.kueue_topology.search import KueueFit, whole_demand
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True)
class KueueDomainShare:
    """What one domain is given."""

    domain: int
    tasks: int
    leaders: int


def descend(
    tree: TopologyTree, room: KueueDomainCapacity, shape: KueueResolvedRequest, fit: KueueFit
) -> list[KueueDomainShare] | None:
    """The leaves' shares; None when the pieces turn out not to hold what their parent counted.

    Above the slice level all children are pooled anew, because that needs fewer domains than
    keeping to each parent's share; a slice must not be torn apart, so below it shares are kept.
    """
    demand = whole_demand(shape)
    shares = fill(room, fit.domains, demand)
    for level in range(fit.level, tree.bottom):
        if shares is None:
            return None
        if level < shape.slice_level and not fit.keep_shares:
            pool = [child for share in shares for child in tree.children(share.domain)]
            shares = fill(room, by_room(room, pool, least_free=shape.least_free), demand)
        else:
            above = level < shape.slice_level
            size = shape.slice_size if above else shape.inner_sizes[level + 1]
            shares = _share_out(tree, room, shares, size, least_free=shape.least_free)
    return shares


def _share_out(
    tree: TopologyTree,
    room: KueueDomainCapacity,
    shares: list[KueueDomainShare],
    size: int,
    *,
    least_free: bool,
) -> list[KueueDomainShare] | None:
    """Split each domain's share among its own children, in groups of ``size`` tasks."""
    parts: list[KueueDomainShare] = []
    for share in shares:
        order = by_room(room, tree.children(share.domain), least_free=least_free)
        if size > 1:
            room.slice_up(order, size)
        demand = Demand(
            units=share.tasks // size,
            unit_tasks=size,
            leaders=share.leaders,
            by_slice=size > 1,
            tight=not least_free,
        )
        part = fill(room, order, demand)
        if part is None:
            return None
        parts += part
    return parts


def fill(
    room: KueueDomainCapacity, domains: Sequence[int], demand: Demand
) -> list[KueueDomainShare] | None:
    """Fill domains in order, each to the brim, and let the last one be the tightest that holds."""
    order = leader_first(room, domains, demand)
    free, beside_leader = demand.free(room), demand.free_beside_leader(room)
    units, leaders = demand.units, demand.leaders
    shares: list[KueueDomainShare] = []
    for position, domain in enumerate(order):
        room_here = beside_leader if leaders else free
        if room_here[domain] >= units and (not leaders or room.leaders[domain] >= leaders):
            if demand.tight:
                domain = tightest(room, order[position:], room_here, units, leaders)
            shares.append(KueueDomainShare(domain, units * demand.unit_tasks, leaders))
            return shares
        taken = min(room_here[domain], units)
        hosted = min(room.leaders[domain], leaders)
        if taken or demand.leaders:
            # With a leader to place, an empty domain stays: its children may still host it.
            shares.append(KueueDomainShare(domain, taken * demand.unit_tasks, hosted))
        units -= taken
        leaders -= hosted
    return None
