"""Distributes a request over the chosen domains, level by level down to the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity
from bursar.core.other_schedulers.kueue_topology.domain_order import (
    Demand,
    by_capacity,
    leader_first,
    tightest,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest
from bursar.core.other_schedulers.kueue_topology.search import KueueFit, total_demand
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True)
class KueueDomainShare:
    """The tasks and leaders assigned to one domain."""

    domain: int
    tasks: int
    leaders: int


def descend(
    tree: TopologyTree, capacity: KueueDomainCapacity, shape: KueueResolvedRequest, fit: KueueFit
) -> list[KueueDomainShare] | None:
    """The leaves' shares; None if children cannot hold what their parent counted.

    Above the slice level the children of all chosen domains are pooled, which needs fewer domains
    than splitting each parent's share. Below it each share is split within its own domain, because
    a slice must not be divided.
    """
    demand = total_demand(shape)
    shares = fill(capacity, fit.domains, demand)
    for level in range(fit.level, tree.bottom):
        if shares is None:
            return None
        if level < shape.slice_level and not fit.keep_shares:
            pool = [child for share in shares for child in tree.children(share.domain)]
            shares = fill(
                capacity, by_capacity(capacity, pool, least_free=shape.least_free), demand
            )
        else:
            above_slices = level < shape.slice_level
            size = shape.slice_size if above_slices else shape.inner_sizes[level + 1]
            shares = _split_shares(tree, capacity, shares, size, least_free=shape.least_free)
    return shares


def _split_shares(
    tree: TopologyTree,
    capacity: KueueDomainCapacity,
    shares: list[KueueDomainShare],
    size: int,
    *,
    least_free: bool,
) -> list[KueueDomainShare] | None:
    """Split each domain's share among its own children, in groups of ``size`` tasks."""
    child_shares: list[KueueDomainShare] = []
    for share in shares:
        order = by_capacity(capacity, tree.children(share.domain), least_free=least_free)
        if size > 1:
            capacity.slice_up(order, size)
        demand = Demand(
            units=share.tasks // size,
            unit_tasks=size,
            leaders=share.leaders,
            by_slice=size > 1,
            tight=not least_free,
        )
        filled = fill(capacity, order, demand)
        if filled is None:
            return None
        child_shares += filled
    return child_shares


def fill(
    capacity: KueueDomainCapacity, domains: Sequence[int], demand: Demand
) -> list[KueueDomainShare] | None:
    """Fill domains completely, in order; the last is the tightest that holds the remainder."""
    order = leader_first(capacity, domains, demand)
    free, with_leader = demand.free(capacity.plain), demand.free(capacity.led)
    units, leaders = demand.units, demand.leaders
    shares: list[KueueDomainShare] = []
    for position, domain in enumerate(order):
        free_here = with_leader if leaders else free
        if free_here[domain] >= units and (not leaders or capacity.leaders[domain] >= leaders):
            if demand.tight:
                domain = tightest(capacity, order[position:], free_here, units, leaders)
            shares.append(KueueDomainShare(domain, units * demand.unit_tasks, leaders))
            return shares
        placed = min(free_here[domain], units)
        hosted = min(capacity.leaders[domain], leaders)
        if placed or demand.leaders:
            # With a leader to place, keep an empty domain: its children may still host it.
            shares.append(KueueDomainShare(domain, placed * demand.unit_tasks, hosted))
        units -= placed
        leaders -= hosted
    return None
