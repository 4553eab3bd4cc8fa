"""Which domain comes first, and which one fits most tightly. Every order ends with the path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is to be handed out: ``units`` of ``unit_tasks`` tasks each, and leaders.

    ``by_slice`` says whether units are slices or single tasks; ``tight`` whether the last domain is
    the one that leaves least over.
    """

    units: int
    unit_tasks: int
    leaders: int
    by_slice: bool
    tight: bool

    def free(self, room: KueueDomainCapacity) -> list[int]:
        """Units that fit in each domain."""
        return room.slices if self.by_slice else room.tasks

    def free_beside_leader(self, room: KueueDomainCapacity) -> list[int]:
        """Units that fit in each domain once the leader is there."""
        return room.led_slices if self.by_slice else room.led_tasks


def by_room(room: KueueDomainCapacity, domains: Iterable[int], *, least_free: bool) -> list[int]:
    """Most slices first (or fewest), then fewest tasks left over."""
    sign = 1 if least_free else -1
    affinity, slices, tasks = room.affinity, room.slices, room.tasks
    return sorted(
        domains,
        key=lambda domain: (-affinity[domain], sign * slices[domain], tasks[domain], domain),
    )


def by_leader_room(
    room: KueueDomainCapacity, domains: Iterable[int], *, least_free: bool
) -> list[int]:
    """Hosts of a leader first, then as :func:`by_room` counted beside the leader."""
    sign = 1 if least_free else -1
    leaders, affinity, slices, tasks = room.leaders, room.affinity, room.led_slices, room.led_tasks
    return sorted(
        domains,
        key=lambda domain: (
            -leaders[domain],
            -affinity[domain],
            sign * slices[domain],
            tasks[domain],
            domain,
        ),
    )


def tightest(
    room: KueueDomainCapacity, domains: Sequence[int], free: list[int], units: int, leaders: int
) -> int:
    """The first domain that holds everything with least to spare.

    Only domains of the first one's affinity are looked at: a better packing never outweighs it.
    """
    best = domains[0]
    best_free: int | None = None
    for domain in domains:
        if room.affinity[domain] != room.affinity[domains[0]]:
            break
        if room.leaders[domain] < leaders or free[domain] < units:
            continue
        if best_free is None or free[domain] < best_free:
            best, best_free = domain, free[domain]
    return best


def leader_first(
    room: KueueDomainCapacity, domains: Sequence[int], demand: Demand
) -> Sequence[int]:
    """Put a domain in front whose loss to the leader all domains together can afford.

    A parent counts the leader where it costs least; a later step that hosted it elsewhere could
    find itself one task short.
    """
    if demand.leaders == 0 or len(domains) < 2:
        return domains
    free, beside_leader = demand.free(room), demand.free_beside_leader(room)
    spare = sum(free[domain] for domain in domains) - demand.units
    for position, domain in enumerate(domains):
        if room.leaders[domain] < demand.leaders or free[domain] - beside_leader[domain] > spare:
            continue
        return [domain, *domains[:position], *domains[position + 1 :]] if position else domains
    return domains
