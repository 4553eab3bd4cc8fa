"""Capacity of each domain, summed from the leaves. Working state of one placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest, LeafCounts
from bursar.core.topology.domain_capacity import DomainCapacity, add_children
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True)
class KueueDomainCapacity:
    """Capacity of each domain, ``plain`` and together with the leader (``led``); the same if there is none.

    ``leaders`` is whether a leader fits at all (0 or 1).
    """

    plain: DomainCapacity
    led: DomainCapacity
    leaders: list[int]
    affinity: list[int]

    def restore(self, original: KueueDomainCapacity, domains: range) -> None:
        """Reset adjacent domains of one level to their original capacity."""
        where = slice(domains.start, domains.stop)
        for mine, its in zip(self._counts(), original._counts(), strict=True):
            mine[where] = its[where]

    def clear(self, domains: range, *, leaders_only: bool) -> None:
        """Exclude adjacent domains entirely, or only as hosts of the leader."""
        counts = self._counts()
        for each in counts[:3] if leaders_only else counts:
            each[domains.start : domains.stop] = [0] * len(domains)

    def _counts(self) -> tuple[list[int], ...]:
        return (self.leaders, self.led.tasks, self.led.slices, self.plain.tasks, self.plain.slices)

    def slice_up(self, domains: Sequence[int], size: int) -> None:
        """Count slices of an inner layer's size in domains below the outermost slice level."""
        self.plain.slice_up(domains, size)
        self.led.slice_up(domains, size)


def measure(
    tree: TopologyTree,
    shape: KueueResolvedRequest,
    counts: Mapping[str, LeafCounts],
    within: range | None = None,
) -> KueueDomainCapacity:
    """Sum the leaves' ``counts`` up to every domain.

    Leaves not ``within`` (if given) have no capacity, but their affinity still ranks their domains.
    """
    plain = DomainCapacity(tasks=[0] * tree.size, slices=[0] * tree.size)
    led = deepcopy(plain) if shape.leaders else plain
    capacity = KueueDomainCapacity(plain, led, [0] * tree.size, [0] * tree.size)
    for leaf in tree.domains(tree.bottom):
        count = counts.get(tree.leaf_id(leaf))
        if count is None:
            continue
        capacity.affinity[leaf] = count.affinity
        if within is not None and leaf not in within:
            continue
        plain.tasks[leaf] = count.tasks
        if shape.leaders:
            capacity.leaders[leaf] = count.leaders
            led.tasks[leaf] = count.tasks_with_leader if count.leaders else count.tasks
    roll_up(tree, capacity, shape, tree.domains(0), shape.inner_sizes)
    _sum_affinity(tree, capacity)
    return capacity


def roll_up(
    tree: TopologyTree,
    capacity: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    tops: range,
    inner_sizes: tuple[int, ...],
) -> None:
    """Recount adjacent domains and their descendants from their leaves."""
    for depth, domains in enumerate(reversed(layers_below(tree, tops))):
        level = tree.bottom - depth
        if level < tree.bottom:
            size = inner_sizes[level + 1]
            for domain in domains:
                add_children(capacity.plain, domain, tree.children(domain), size)
                if shape.leaders:
                    _add_children_with_leader(capacity, domain, tree.children(domain), size)
        if level == shape.slice_level:
            capacity.slice_up(domains, shape.slice_size)


def layers_below(tree: TopologyTree, tops: range) -> list[range]:
    """Adjacent domains and all their descendants, one range per level."""
    layers = [tops]
    while inner := tree.below(layers[-1]):
        layers.append(inner)
    return layers


def _add_children_with_leader(
    capacity: KueueDomainCapacity, domain: int, children: range, size: int
) -> None:
    """The leader is counted in the child where it displaces the least.

    Children count only in whole groups of ``size``, because nothing smaller can be placed in them.
    """
    plain, led = capacity.plain, capacity.led
    hosts = [child for child in children if capacity.leaders[child] > 0]
    capacity.leaders[domain] = max((capacity.leaders[child] for child in hosts), default=0)
    led.tasks[domain] = led.slices[domain] = 0
    if hosts:
        led.tasks[domain] = plain.tasks[domain] - min(
            (plain.tasks[child] // size - led.tasks[child] // size) * size for child in hosts
        )
        led.slices[domain] = plain.slices[domain] - min(
            plain.slices[child] - led.slices[child] for child in hosts
        )


def _sum_affinity(tree: TopologyTree, capacity: KueueDomainCapacity) -> None:
    """Sum the leaves' affinity scores per domain; most requests have none."""
    if not any(capacity.affinity):
        return
    for level in range(tree.bottom - 1, -1, -1):
        for domain in tree.domains(level):
            children = tree.children(domain)
            capacity.affinity[domain] = sum(capacity.affinity[children.start : children.stop])
