"""Finds the narrowest level, and its domains, that fit a whole request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.core.topology.domain_capacity import DomainCapacity
from bursar.core.topology.request import ResolvedRequest
from bursar.core.topology.result import MissReason, TopologyMiss
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Domains of one level that together fit the request, in the order to fill them."""

    level: int
    domains: tuple[int, ...]


def find_fit(
    tree: TopologyTree, capacity: DomainCapacity, shape: ResolvedRequest
) -> Fit | TopologyMiss:
    """One domain of the requested level, else (if preferred) of a wider level, else several."""
    level = shape.level
    slices, tasks = capacity.slices, capacity.tasks
    while True:
        domains = tree.domains(level)
        if not domains:
            return miss(tree, shape, level, MissReason.NO_DOMAINS)
        fitting = [domain for domain in domains if slices[domain] >= shape.slices]
        if fitting:
            best = min(fitting, key=lambda domain: (slices[domain], tasks[domain], domain))
            return Fit(level=level, domains=(best,))
        if shape.required:
            most = max(slices[domains.start : domains.stop])
            return miss(tree, shape, level, MissReason.NOT_ENOUGH_CAPACITY, most)
        if level == 0 or shape.unconstrained:
            return _several_domains(tree, capacity, shape, level)
        level -= 1


def by_capacity(capacity: DomainCapacity, domains: Iterable[int], *, least_free: bool) -> list[int]:
    """Most slices first (or fewest), then fewest tasks left over."""
    sign = 1 if least_free else -1
    slices, tasks = capacity.slices, capacity.tasks
    return sorted(domains, key=lambda domain: (sign * slices[domain], tasks[domain], domain))


def tightest(domains: Sequence[int], free: list[int], units: int) -> int:
    """The first domain that fits these units with least to spare."""
    return min((one for one in domains if free[one] >= units), key=lambda domain: free[domain])


def _several_domains(
    tree: TopologyTree, capacity: DomainCapacity, shape: ResolvedRequest, level: int
) -> Fit | TopologyMiss:
    """The emptiest domains first and the last as tight as possible; or the fullest first."""
    order = by_capacity(capacity, tree.domains(level), least_free=shape.unconstrained)
    slices, left = capacity.slices, shape.slices
    chosen: list[int] = []
    for index, domain in enumerate(order):
        if left <= 0:
            break
        if slices[domain] >= left and not shape.unconstrained:
            domain = tightest(order[index:], slices, left)
        chosen.append(domain)
        left -= slices[domain]
    if left > 0:
        return miss(tree, shape, level, MissReason.NOT_ENOUGH_CAPACITY, shape.slices - left)
    return Fit(level=level, domains=tuple(chosen))


def miss(
    tree: TopologyTree, shape: ResolvedRequest, level: int, reason: MissReason, slices_fit: int = 0
) -> TopologyMiss:
    """No placement of a resolved request."""
    return TopologyMiss(
        reason=reason,
        level=tree.levels[level],
        slices_wanted=shape.slices,
        slices_fit=slices_fit,
        slice_size=shape.slice_size,
    )
