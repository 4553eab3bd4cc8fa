"""Finds the narrowest level whose domains hold a whole request."""

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
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.search import Fit, miss
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueFit(Fit):
    """``keep_shares``: each domain's share is fixed and is split among its own children only."""

    keep_shares: bool = False


def total_demand(shape: KueueResolvedRequest) -> Demand:
    """The request in slices of its outermost layer."""
    return Demand(
        units=shape.slices,
        unit_tasks=shape.slice_size,
        leaders=shape.leaders,
        by_slice=True,
        tight=not shape.least_free,
    )


def find_fit(
    tree: TopologyTree, capacity: KueueDomainCapacity, shape: KueueResolvedRequest
) -> KueueFit | TopologyMiss:
    """One domain of the requested level or, if only preferred, of a wider one; else several."""
    level = shape.level
    while True:
        domains = tree.domains(level)
        if not domains:
            return miss(tree, shape, level, MissReason.NO_DOMAINS)
        order = by_capacity(capacity, domains, least_free=shape.least_free, with_leader=True)
        single = _one_domain(capacity, order, shape)
        if single is not None:
            return KueueFit(level=level, domains=(single,))
        if shape.required:
            lacks_host = shape.leaders > 0 and capacity.leaders[order[0]] < shape.leaders
            reason = (
                MissReason.NO_CAPACITY_FOR_LEADER if lacks_host else MissReason.NOT_ENOUGH_CAPACITY
            )
            return miss(tree, shape, level, reason, capacity.plain.slices[order[0]])
        if level == 0 or shape.unconstrained:
            return _several_domains(tree, capacity, shape, level, order)
        level -= 1


def _one_domain(
    capacity: KueueDomainCapacity, order: Sequence[int], shape: KueueResolvedRequest
) -> int | None:
    """The domain that holds the whole request, if any.

    A preferred request checks only the first domain of a level before it widens, so that affinity
    outweighs packing.
    """
    for position, domain in enumerate(order):
        if (
            capacity.leaders[domain] >= shape.leaders
            and capacity.led.slices[domain] >= shape.slices
        ):
            if shape.least_free:
                return domain
            candidates = order[position:]
            return tightest(capacity, candidates, capacity.led.slices, shape.slices, shape.leaders)
        if not shape.least_free and not shape.required:
            return None
    return None


def _several_domains(
    tree: TopologyTree,
    capacity: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    level: int,
    order: Sequence[int],
) -> KueueFit | TopologyMiss:
    """The leader's domain first, then the largest; the last is the tightest fit."""
    demand = total_demand(shape)
    order = leader_first(capacity, order, demand)
    chosen: list[int] = []
    slices_left, leaders_left, position = shape.slices, shape.leaders, 0
    while leaders_left > 0 and position < len(order) and capacity.leaders[order[position]] > 0:
        domain = order[position]
        if demand.tight and capacity.led.slices[domain] >= slices_left:
            candidates = order[position:]
            domain = tightest(capacity, candidates, capacity.led.slices, slices_left, leaders_left)
        chosen.append(domain)
        leaders_left -= capacity.leaders[domain]
        slices_left -= capacity.led.slices[domain]
        position += 1
    if leaders_left > 0:
        return miss(tree, shape, level, MissReason.NO_CAPACITY_FOR_LEADER)
    followers = by_capacity(capacity, order[position:], least_free=shape.least_free)
    for index, domain in enumerate(followers):
        if slices_left <= 0:
            break
        if demand.tight and capacity.plain.slices[domain] >= slices_left:
            domain = tightest(capacity, followers[index:], capacity.plain.slices, slices_left, 0)
        chosen.append(domain)
        slices_left -= capacity.plain.slices[domain]
    if slices_left > 0:
        fit = shape.slices - slices_left
        return miss(tree, shape, level, MissReason.NOT_ENOUGH_CAPACITY, fit)
    return KueueFit(level=level, domains=tuple(chosen))
