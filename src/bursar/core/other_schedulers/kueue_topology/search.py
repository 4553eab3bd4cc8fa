"""Find the narrowest level, and the domains of it, that hold a whole request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity
from bursar.core.other_schedulers.kueue_topology.domain_order import (
    Demand,
    by_leader_room,
    by_room,
    leader_first,
    tightest,
)
from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueFit:
    """Domains of one level that hold everything together, in the order they are to be filled.

    ``keep_shares``: what a domain gets is settled, so its children share that and no more.
    """

    level: int
    domains: tuple[int, ...]
    keep_shares: bool = False


def whole_demand(shape: KueueResolvedRequest) -> Demand:
    """The request in slices of its outermost layer."""
    return Demand(
        units=shape.slices,
        unit_tasks=shape.slice_size,
        leaders=shape.leaders,
        by_slice=True,
        tight=not shape.least_free,
    )


def find_fit(
    tree: TopologyTree, room: KueueDomainCapacity, shape: KueueResolvedRequest
) -> KueueFit | TopologyMiss:
    """One domain of the requested level; if preferred, of a wider level; at last several."""
    level = shape.level
    while True:
        domains = tree.domains(level)
        if not domains:
            return _miss(tree, shape, level, MissReason.NO_DOMAINS, 0)
        order = by_leader_room(room, domains, least_free=shape.least_free)
        single = _one_domain(room, order, shape)
        if single is not None:
            return KueueFit(level=level, domains=(single,))
        if shape.required:
            led = shape.leaders > 0 and room.leaders[order[0]] < shape.leaders
            reason = MissReason.NO_CAPACITY_FOR_LEADER if led else MissReason.NOT_ENOUGH_CAPACITY
            return _miss(tree, shape, level, reason, room.slices[order[0]])
        if level == 0 or shape.unconstrained:
            return _several_domains(tree, room, shape, level, order)
        level -= 1


def _one_domain(
    room: KueueDomainCapacity, order: Sequence[int], shape: KueueResolvedRequest
) -> int | None:
    """The domain that takes everything, if the request may look for one here.

    A preferred request only looks past the first domain at a wider level, so that affinity decides
    before packing does.
    """
    for position, domain in enumerate(order):
        if room.leaders[domain] >= shape.leaders and room.led_slices[domain] >= shape.slices:
            if shape.least_free:
                return domain
            rest = order[position:]
            return tightest(room, rest, room.led_slices, shape.slices, shape.leaders)
        if not shape.least_free and not shape.required:
            return None
    return None


def _several_domains(
    tree: TopologyTree,
    room: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    level: int,
    order: Sequence[int],
) -> KueueFit | TopologyMiss:
    """The leader's domain first, then the roomiest, and the last one as tight as possible."""
    demand = whole_demand(shape)
    order = leader_first(room, order, demand)
    chosen: list[int] = []
    slices_left, leaders_left, position = shape.slices, shape.leaders, 0
    while leaders_left > 0 and position < len(order) and room.leaders[order[position]] > 0:
        domain = order[position]
        if demand.tight and room.led_slices[domain] >= slices_left:
            rest = order[position:]
            domain = tightest(room, rest, room.led_slices, slices_left, leaders_left)
        chosen.append(domain)
        leaders_left -= room.leaders[domain]
        slices_left -= room.led_slices[domain]
        position += 1
    if leaders_left > 0:
        return _miss(tree, shape, level, MissReason.NO_CAPACITY_FOR_LEADER, 0)
    followers = by_room(room, order[position:], least_free=shape.least_free)
    for index, domain in enumerate(followers):
        if slices_left <= 0:
            break
        if demand.tight and room.slices[domain] >= slices_left:
            domain = tightest(room, followers[index:], room.slices, slices_left, 0)
        chosen.append(domain)
        slices_left -= room.slices[domain]
    if slices_left > 0:
        fit = shape.slices - slices_left
        return _miss(tree, shape, level, MissReason.NOT_ENOUGH_CAPACITY, fit)
    return KueueFit(level=level, domains=tuple(chosen))


def _miss(
    tree: TopologyTree, shape: KueueResolvedRequest, level: int, reason: MissReason, slices_fit: int
) -> TopologyMiss:
    return TopologyMiss(
        reason=reason,
        level=tree.levels[level],
        slices_wanted=shape.slices,
        slices_fit=slices_fit,
        slice_size=shape.slice_size,
    )
