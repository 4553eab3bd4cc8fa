"""Even placement: as few domains as hold the request, each with as much as the least of them.

A gang spread 13 + 12 finishes its collectives sooner than one spread 15 + 10. The *threshold* is
the most slices that every used domain can be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from bursar.core.other_schedulers.kueue_topology.domain_capacity import KueueDomainCapacity, roll_up
from bursar.core.other_schedulers.kueue_topology.domain_order import by_leader_room, by_room
from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest
from bursar.core.other_schedulers.kueue_topology.search import KueueFit
from bursar.core.other_schedulers.kueue_topology.subset import smallest_subset
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """How the roomiest-first choice would come out; its last domains bound the threshold."""

    domain_count: int
    last_leader: int | None
    last_follower: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSet:
    """Sibling domains that hold everything at a threshold, using ``domain_count`` of them."""

    domains: range
    threshold: int
    domain_count: int


def find_balanced_fit(
    tree: TopologyTree, room: KueueDomainCapacity, shape: KueueResolvedRequest
) -> tuple[KueueFit, KueueDomainCapacity] | None:
    """An even fit and the room it was settled in; None when the request cannot be evened out."""
    if shape.slices == 0:
        return None
    trial = room.copy()
    group = _best_group(tree, room, trial, shape)
    if group is None:
        return None
    level, domains = shape.level, list(group.domains)
    if shape.level < shape.slice_level:
        chosen = _optimal_subset(trial, _by_evenness(tree, trial, domains), shape)
        if chosen is None:
            return None
        level += 1
        domains = [child for domain in chosen for child in tree.children(domain)]
    settled = _settle(trial, domains, shape, group.threshold)
    if settled is None:
        return None
    return KueueFit(level=level, domains=settled, keep_shares=True), trial


def _best_group(
    tree: TopologyTree,
    room: KueueDomainCapacity,
    trial: KueueDomainCapacity,
    shape: KueueResolvedRequest,
) -> DomainSet | None:
    """The siblings with the highest threshold, then the fewest domains; ``trial`` is pruned."""
    if shape.level == 0:
        families = [tree.domains(0)]
    else:
        families = [tree.children(parent) for parent in tree.domains(shape.level - 1)]
    best: DomainSet | None = None
    for family in families:
        group = _try_family(tree, (room, trial), shape, family, best.threshold if best else 1)
        if group is None:
            continue
        if (
            best is None
            or group.threshold > best.threshold
            or (group.threshold == best.threshold and group.domain_count < best.domain_count)
        ):
            best = group
    return best


def _try_family(
    tree: TopologyTree,
    rooms: tuple[KueueDomainCapacity, KueueDomainCapacity],
    shape: KueueResolvedRequest,
    family: range,
    at_least: int,
) -> DomainSet | None:
    """Prune one family to its threshold; once more, lower, if that left no host for the leader."""
    room, trial = rooms
    lower = tree.below(family) if shape.level < shape.slice_level else family
    greedy = _greedy(trial, lower, shape)
    if greedy is None:
        return None
    threshold = _threshold(trial, shape, greedy)
    thresholds = [threshold]
    if shape.leaders and greedy.last_follower is not None:
        thresholds.append(min(threshold, trial.led_slices[greedy.last_follower]))
    for attempt, value in enumerate(thresholds):
        if value < at_least or (attempt and value == threshold):
            return None
        if attempt:
            for domains in _family_layers(tree, family):
                trial.restore(room, domains)
        _prune(tree, trial, shape, family, value)
        pruned = _greedy(trial, family, shape)
        if pruned is not None:
            return DomainSet(domains=family, threshold=value, domain_count=pruned.domain_count)
    return None


def _family_layers(tree: TopologyTree, family: range) -> list[range]:
    """A family and all its descendants, one range a level."""
    layers = [family]
    while inner := tree.below(layers[-1]):
        layers.append(inner)
    return layers


def _greedy(
    room: KueueDomainCapacity, domains: Sequence[int], shape: KueueResolvedRequest
) -> Greedy | None:
    """Fill the roomiest first, the leader's before all; None when not everything fits."""
    slices_left, leaders_left, count = shape.slices, shape.leaders, 0
    last_leader = last_follower = None
    rest: Sequence[int] = domains
    if leaders_left:
        rest = by_leader_room(room, domains, least_free=False)
        while leaders_left > 0 and count < len(rest) and room.leaders[rest[count]] > 0:
            last_leader = rest[count]
            leaders_left -= room.leaders[last_leader]
            slices_left -= room.led_slices[last_leader]
            count += 1
        if leaders_left > 0:
            return None
        rest = rest[count:]
    for domain in by_room(room, rest, least_free=False):
        if slices_left <= 0 or room.slices[domain] <= 0:
            break
        last_follower = domain
        slices_left -= room.slices[domain]
        count += 1
    if slices_left > 0:
        return None
    return Greedy(domain_count=count, last_leader=last_leader, last_follower=last_follower)


def _threshold(room: KueueDomainCapacity, shape: KueueResolvedRequest, greedy: Greedy) -> int:
    """What every domain of the greedy choice could be given: an even part, or its least room."""
    threshold = shape.slices // greedy.domain_count
    if greedy.last_leader is not None:
        threshold = min(threshold, room.led_slices[greedy.last_leader])
    if greedy.last_follower is not None:
        threshold = min(threshold, room.slices[greedy.last_follower])
    return threshold


def _prune(
    tree: TopologyTree,
    room: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    family: range,
    threshold: int,
) -> None:
    """Take domains below the threshold out, children first, then the family recounted."""
    no_inner_layers = (1,) * len(tree.levels)
    for child in tree.below(family):
        _prune_one(tree, room, shape, child, threshold)
    roll_up(tree, room, shape, family, no_inner_layers)
    for domain in family:
        _prune_one(tree, room, shape, domain, threshold)


def _prune_one(
    tree: TopologyTree,
    room: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    domain: int,
    threshold: int,
) -> None:
    """A domain with too little beside the leader may still take tasks, only not the leader."""
    too_small = room.slices[domain] < threshold
    no_host = bool(shape.leaders and room.leaders[domain]) and room.led_slices[domain] < threshold
    if too_small or no_host:
        for domains in _family_layers(tree, range(domain, domain + 1)):
            room.clear(domains, leaders_only=not too_small)


def _optimal_subset(
    room: KueueDomainCapacity, domains: Sequence[int], shape: KueueResolvedRequest
) -> list[int] | None:
    """As many domains as the greedy choice takes, but those with the least room to spare."""
    greedy = _greedy(room, domains, shape)
    if greedy is None:
        return None
    return smallest_subset(room, domains, shape, greedy.domain_count)


def _by_evenness(
    tree: TopologyTree, room: KueueDomainCapacity, domains: Sequence[int]
) -> list[int]:
    """Roomiest first; of equals, the one whose own children are most alike."""
    entropies = {domain: _entropy(room, tree.children(domain)) for domain in domains}
    return sorted(
        domains,
        key=lambda domain: (
            -room.leaders[domain],
            -room.led_slices[domain],
            -entropies[domain],
            domain,
        ),
    )


def _entropy(room: KueueDomainCapacity, domains: range) -> float:
    """Shannon entropy of how tasks fit over domains; summed in size order, so equals are equal."""
    counts = sorted(count for count in room.tasks[domains.start : domains.stop] if count > 0)
    total = sum(counts)
    return -sum(count / total * log2(count / total) for count in counts)


def _settle(
    room: KueueDomainCapacity, domains: Sequence[int], shape: KueueResolvedRequest, threshold: int
) -> tuple[int, ...] | None:
    """Give each chosen domain the threshold, then what is left to the roomiest; written to room."""
    chosen = _optimal_subset(room, sorted(domains), shape)
    if chosen is None:
        return None
    extra, leaders_left = shape.slices - len(chosen) * threshold, shape.leaders
    if extra < 0:
        return None
    order = by_leader_room(room, chosen, least_free=False)
    for domain in order:
        hosted = min(1, leaders_left)
        free = room.led_slices[domain] if hosted else room.slices[domain]
        more = min(free - threshold, extra) if hosted or extra > 0 else 0
        leaders_left -= hosted
        extra -= more
        slices = threshold + more
        room.leaders[domain] = hosted
        room.slices[domain] = room.led_slices[domain] = slices
        room.tasks[domain] = slices * shape.slice_size
        room.led_tasks[domain] = slices * shape.slice_size - hosted
    return tuple(order) if extra <= 0 and leaders_left <= 0 else None
