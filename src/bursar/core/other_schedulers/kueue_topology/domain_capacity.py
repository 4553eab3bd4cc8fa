"""Capacity of each domain, summed from the leaves. Working state of one placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest, LeafCounts
from bursar.core.topology.tree import TopologyTree


@dataclass(slots=True, kw_only=True)
class KueueDomainCapacity:
    """Per domain number: tasks and whole slices that fit, without and with the leader.

    ``leaders`` is whether a leader fits at all (0 or 1). Below the slice level ``slices`` stay 0
    until a layer there needs them.
    """

    tasks: list[int]
    slices: list[int]
    led_tasks: list[int]
    led_slices: list[int]
    leaders: list[int]
    affinity: list[int]

    def copy(self) -> KueueDomainCapacity:
        return KueueDomainCapacity(
            tasks=self.tasks[:],
            slices=self.slices[:],
            led_tasks=self.led_tasks[:],
            led_slices=self.led_slices[:],
            leaders=self.leaders[:],
            affinity=self.affinity[:],
        )

    def restore(self, original: KueueDomainCapacity, domains: range) -> None:
        """Reset adjacent domains of one level to their original capacity."""
        indexes = slice(domains.start, domains.stop)
        self.tasks[indexes] = original.tasks[indexes]
        self.slices[indexes] = original.slices[indexes]
        self.led_tasks[indexes] = original.led_tasks[indexes]
        self.led_slices[indexes] = original.led_slices[indexes]
        self.leaders[indexes] = original.leaders[indexes]

    def clear(self, domains: range, *, leaders_only: bool) -> None:
        """Exclude adjacent domains entirely, or only as hosts of the leader."""
        indexes = slice(domains.start, domains.stop)
        zeros = [0] * len(domains)
        if not leaders_only:
            self.tasks[indexes] = zeros
            self.slices[indexes] = zeros
        self.led_tasks[indexes] = zeros
        self.led_slices[indexes] = zeros
        self.leaders[indexes] = zeros

    def slice_up(self, domains: Iterable[int], size: int) -> None:
        """Count slices of an inner layer's size in domains below the outermost slice level."""
        for domain in domains:
            self.slices[domain] = self.tasks[domain] // size
            self.led_slices[domain] = self.led_tasks[domain] // size


def measure(
    tree: TopologyTree,
    shape: KueueResolvedRequest,
    counts: Mapping[str, LeafCounts],
    within: range | None = None,
) -> KueueDomainCapacity:
    """Sum the leaves' ``counts`` up to every domain.

    Leaves not ``within`` (if given) have no capacity, but their affinity still ranks their domains.
    """
    capacity = KueueDomainCapacity(
        tasks=[0] * tree.size,
        slices=[0] * tree.size,
        led_tasks=[0] * tree.size,
        led_slices=[0] * tree.size,
        leaders=[0] * tree.size,
        affinity=[0] * tree.size,
    )
    start = tree.leaf_start
    inside = tree.domains(tree.bottom) if within is None else within
    for leaf in tree.domains(tree.bottom):
        count = counts.get(tree.leaf_ids[leaf - start])
        if count is None:
            continue
        capacity.affinity[leaf] = count.affinity
        if leaf not in inside:
            continue
        capacity.tasks[leaf] = count.tasks
        if shape.leaders:
            capacity.leaders[leaf] = count.leaders
            capacity.led_tasks[leaf] = count.tasks_with_leader if count.leaders else count.tasks
    if not shape.leaders:
        capacity.led_tasks = capacity.tasks[:]
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
    layers = [tops]
    while inner := tree.below(layers[-1]):
        layers.append(inner)
    for depth, domains in enumerate(reversed(layers)):
        level = tree.bottom - depth
        if level < tree.bottom:
            size = inner_sizes[level + 1]
            for domain in domains:
                _add_children(capacity, domain, tree.children(domain), size, shape.leaders > 0)
        if level == shape.slice_level:
            capacity.slice_up(domains, shape.slice_size)


def _add_children(
    capacity: KueueDomainCapacity, domain: int, children: range, size: int, led: bool
) -> None:
    """Sum the children; the leader is counted in the child where it displaces the least.

    Children count only in whole groups of ``size``, because nothing smaller can be placed in them.
    """
    indexes = slice(children.start, children.stop)
    child_tasks = capacity.tasks[indexes]
    if size > 1:
        child_tasks = [tasks // size * size for tasks in child_tasks]
    capacity.tasks[domain] = tasks = sum(child_tasks)
    capacity.slices[domain] = slices = sum(capacity.slices[indexes])
    if not led:
        capacity.led_tasks[domain] = tasks
        capacity.led_slices[domain] = slices
        return
    hosts = [child for child in children if capacity.leaders[child] > 0]
    capacity.leaders[domain] = max((capacity.leaders[child] for child in hosts), default=0)
    if not hosts:
        capacity.led_tasks[domain] = capacity.led_slices[domain] = 0
        return
    first = children.start
    capacity.led_tasks[domain] = tasks - min(
        child_tasks[child - first] - capacity.led_tasks[child] // size * size for child in hosts
    )
    capacity.led_slices[domain] = slices - min(
        capacity.slices[child] - capacity.led_slices[child] for child in hosts
    )


def _sum_affinity(tree: TopologyTree, capacity: KueueDomainCapacity) -> None:
    """Sum the leaves' affinity scores per domain; most requests have none."""
    if not any(capacity.affinity):
        return
    for level in range(tree.bottom - 1, -1, -1):
        for domain in tree.domains(level):
            children = tree.children(domain)
            capacity.affinity[domain] = sum(capacity.affinity[children.start : children.stop])
