"""Chooses a given number of domains that hold a request with the least capacity left."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity
from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest

Chain = tuple["Chain", int] | None
"""Domains chosen so far, newest first; chains share their tails."""

Chains = dict[int, Chain]
"""The first chain found for each number of tasks still to place."""


def smallest_subset(
    capacity: KueueDomainCapacity,
    domains: Sequence[int],
    shape: KueueResolvedRequest,
    domain_count: int,
) -> list[int] | None:
    """The tightest choice of exactly ``domain_count`` domains that holds the request.

    A table by domains used, leaders and tasks still to place stores the first chain that reaches
    each entry, so ties go to the domains earliest in ``domains``. Entries that even the largest
    domains could not complete are dropped, and an exact fit ends the search; neither changes the
    result.
    """
    largest = max(
        (max(capacity.plain.tasks[domain], capacity.led.tasks[domain]) for domain in domains),
        default=0,
    )
    tables: list[list[Chains]] = [
        [{} for _ in range(shape.leaders + 1)] for _ in range(domain_count + 1)
    ]
    tables[0][shape.leaders][shape.slices * shape.slice_size] = None
    for domain in domains:
        if capacity.plain.slices[domain] <= 0 and capacity.leaders[domain] <= 0:
            continue
        for used in range(domain_count, 0, -1):
            reach = (domain_count - used) * largest
            _extend(capacity, domain, tables[used - 1], tables[used], reach)
        if 0 in tables[domain_count][0]:
            break
    tasks_left = max((tasks for tasks in tables[domain_count][0] if tasks <= 0), default=None)
    return None if tasks_left is None else _unwind(tables[domain_count][0][tasks_left])


def _extend(
    capacity: KueueDomainCapacity,
    domain: int,
    before: list[Chains],
    after: list[Chains],
    reach: int,
) -> None:
    """Add one domain to every chain, as host of the leader and without it."""
    hosts = capacity.leaders[domain]
    for leaders_left, chains in enumerate(before):
        for tasks_left, chain in chains.items():
            if leaders_left <= 0 and tasks_left <= 0:
                continue
            if leaders_left > 0 and hosts > 0:
                remaining = tasks_left - capacity.led.tasks[domain]
                if remaining <= reach:
                    after[leaders_left - hosts].setdefault(remaining, (chain, domain))
            if capacity.plain.slices[domain] > 0:
                remaining = tasks_left - capacity.plain.tasks[domain]
                if remaining <= reach:
                    after[leaders_left].setdefault(remaining, (chain, domain))


def _unwind(chain: Chain) -> list[int]:
    domains: list[int] = []
    while chain is not None:
        chain, domain = chain
        domains.append(domain)
    return domains[::-1]
