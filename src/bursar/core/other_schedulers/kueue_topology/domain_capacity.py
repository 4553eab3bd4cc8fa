"""How much each domain could take, rolled up from the leaves. Scratch for one placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest, LeafCounts
from bursar.core.topology.tree import TopologyTree


@dataclass(slots=True, kw_only=True)
class KueueDomainCapacity:
    """Per domain number: tasks and whole slices that fit, without and with the leader beside them.

    ``leaders`` says whether a leader fits at all (0 or 1). Below the slice level ``slices`` stay 0
    until a layer there needs them.
    """

    tasks: list[int]
    slices: list[int]
    led_tasks: list[int]
    led_slices: list[int]
    leaders: list[int]
    affinity: list[int]

    def copy(self) -> KueueDomainCapacity:
        """A room to try things in."""
        return KueueDomainCapacity(
            tasks=self.tasks[:],
            slices=self.slices[:],
            led_tasks=self.led_tasks[:],
            led_slices=self.led_slices[:],
            leaders=self.leaders[:],
            affinity=self.affinity[:],
        )

    def restore(self, original: KueueDomainCapacity, domains: range) -> None:
        """Undo what was tried on neighbouring domains of one level."""
        where = slice(domains.start, domains.stop)
        self.tasks[where] = original.tasks[where]
        self.slices[where] = original.slices[where]
        self.led_tasks[where] = original.led_tasks[where]
        self.led_slices[where] = original.led_slices[where]
        self.leaders[where] = original.leaders[where]

    def clear(self, domains: range, *, leaders_only: bool) -> None:
        """Take neighbouring domains out of use, or only as hosts of the leader."""
        where = slice(domains.start, domains.stop)
        nothing = [0] * len(domains)
        if not leaders_only:
            self.tasks[where] = nothing
            self.slices[where] = nothing
        self.led_tasks[where] = nothing
        self.led_slices[where] = nothing
        self.leaders[where] = nothing

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
    """Fill the leaves from ``counts`` and roll them up.

    Leaves not ``within`` (if given) hold nothing, but their affinity still ranks their domains.
    """
    room = KueueDomainCapacity(
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
        room.affinity[leaf] = count.affinity
        if leaf not in inside:
            continue
        room.tasks[leaf] = count.tasks
        if shape.leaders:
            room.leaders[leaf] = count.leaders
            room.led_tasks[leaf] = count.tasks_with_leader if count.leaders else count.tasks
    if not shape.leaders:
        room.led_tasks = room.tasks[:]
    roll_up(tree, room, shape, tree.domains(0), shape.inner_sizes)
    _sum_affinity(tree, room)
    return room


def roll_up(
    tree: TopologyTree,
    room: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    tops: range,
    inner_sizes: tuple[int, ...],
) -> None:
    """Recount neighbouring domains and all below them from their leaves."""
    layers = [tops]
    while inner := tree.below(layers[-1]):
        layers.append(inner)
    for depth, domains in enumerate(reversed(layers)):
        level = tree.bottom - depth
        if level < tree.bottom:
            size = inner_sizes[level + 1]
            for domain in domains:
                _add_children(room, domain, tree.children(domain), size, shape.leaders > 0)
        if level == shape.slice_level:
            room.slice_up(domains, shape.slice_size)


def _add_children(
    room: KueueDomainCapacity, domain: int, children: range, size: int, led: bool
) -> None:
    """Sum the children; the leader costs the parent what it costs where it costs the least.

    Children give only whole groups of ``size``, because nothing smaller can be placed in them.
    """
    where = slice(children.start, children.stop)
    child_tasks = room.tasks[where]
    if size > 1:
        child_tasks = [tasks // size * size for tasks in child_tasks]
    room.tasks[domain] = tasks = sum(child_tasks)
    room.slices[domain] = slices = sum(room.slices[where])
    if not led:
        room.led_tasks[domain] = tasks
        room.led_slices[domain] = slices
        return
    hosts = [child for child in children if room.leaders[child] > 0]
    room.leaders[domain] = max((room.leaders[child] for child in hosts), default=0)
    if not hosts:
        room.led_tasks[domain] = room.led_slices[domain] = 0
        return
    first = children.start
    room.led_tasks[domain] = tasks - min(
        child_tasks[child - first] - room.led_tasks[child] // size * size for child in hosts
    )
    room.led_slices[domain] = slices - min(
        room.slices[child] - room.led_slices[child] for child in hosts
    )


def _sum_affinity(tree: TopologyTree, room: KueueDomainCapacity) -> None:
    """A domain's score is its leaves' scores together; most requests have none."""
    if not any(room.affinity):
        return
    for level in range(tree.bottom - 1, -1, -1):
        for domain in tree.domains(level):
            children = tree.children(domain)
            room.affinity[domain] = sum(room.affinity[children.start : children.stop])
