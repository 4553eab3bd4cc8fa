"""Orders domains and finds the tightest fit. Every sort key ends with the domain number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity
from bursar.core.topology.domain_capacity import DomainCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What to distribute: ``units`` of ``unit_tasks`` tasks each, and leaders.

    ``by_slice``: units are slices, not single tasks. ``tight``: the last domain is the one with the
    least capacity left over.
    """

    units: int
    unit_tasks: int
    leaders: int
    by_slice: bool
    tight: bool

    def free(self, capacity: DomainCapacity) -> list[int]:
        """Units that fit in each domain."""
        return capacity.slices if self.by_slice else capacity.tasks


def by_capacity(
    capacity: KueueDomainCapacity,
    domains: Iterable[int],
    *,
    least_free: bool,
    with_leader: bool = False,
) -> list[int]:
    """Most slices first (or fewest), then fewest tasks left over.

    With a leader its hosts go first, and capacity is counted together with it.
    """
    sign = 1 if least_free else -1
    free = capacity.led if with_leader else capacity.plain
    leaders, affinity, slices, tasks = capacity.leaders, capacity.affinity, free.slices, free.tasks

    def key(domain: int) -> tuple[int, int, int, int, int]:
        hosts = leaders[domain] if with_leader else 0
        return -hosts, -affinity[domain], sign * slices[domain], tasks[domain], domain

    return sorted(domains, key=key)


def tightest(
    capacity: KueueDomainCapacity, domains: Sequence[int], free: list[int], units: int, leaders: int
) -> int:
    """The domain that holds everything with the least capacity left; ties go to the first.

    Considers only domains with the first one's affinity: better packing never outweighs affinity.
    """
    best = domains[0]
    best_free: int | None = None
    for domain in domains:
        if capacity.affinity[domain] != capacity.affinity[domains[0]]:
            break
        if capacity.leaders[domain] < leaders or free[domain] < units:
            continue
        if best_free is None or free[domain] < best_free:
            best, best_free = domain, free[domain]
    return best


def leader_first(
    capacity: KueueDomainCapacity, domains: Sequence[int], demand: Demand
) -> Sequence[int]:
    """Move a leader host to the front whose remaining capacity still lets every unit fit.

    A parent counts the leader in the child where it displaces the least; hosting it elsewhere could
    leave a later step one task short.
    """
    if demand.leaders == 0 or len(domains) < 2:
        return domains
    free, with_leader = demand.free(capacity.plain), demand.free(capacity.led)
    spare = sum(free[domain] for domain in domains) - demand.units
    for position, domain in enumerate(domains):
        if capacity.leaders[domain] < demand.leaders or free[domain] - with_leader[domain] > spare:
            continue
        return [domain, *domains[:position], *domains[position + 1 :]] if position else domains
    return domains
