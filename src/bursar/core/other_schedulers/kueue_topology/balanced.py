"""Even placement: spreads a request evenly over the fewest domains that hold it.

A gang spread 13 + 12 finishes its collectives sooner than one spread 15 + 10. The *threshold* is
the largest number of slices that every used domain can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import log2

from bursar.core.other_schedulers.kueue_topology.domain_capacity import (
    KueueDomainCapacity,
    layers_below,
    roll_up,
)
from bursar.core.other_schedulers.kueue_topology.domain_order import by_capacity
from bursar.core.other_schedulers.kueue_topology.request import KueueResolvedRequest
from bursar.core.other_schedulers.kueue_topology.search import KueueFit
from bursar.core.other_schedulers.kueue_topology.subset import smallest_subset
from bursar.core.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """The result of filling the largest domains first; its last domains bound the threshold."""

    domain_count: int
    last_leader: int | None
    last_follower: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSet:
    """Sibling domains, ``domain_count`` of which hold the request at a threshold."""

    domains: range
    threshold: int
    domain_count: int


def find_balanced_fit(
    tree: TopologyTree, capacity: KueueDomainCapacity, shape: KueueResolvedRequest
) -> tuple[KueueFit, KueueDomainCapacity] | None:
    """An even fit and the capacity reserved for it; None if no even placement exists."""
    if shape.slices == 0:
        return None
    trial = deepcopy(capacity)
    siblings = _best_siblings(tree, capacity, trial, shape)
    if siblings is None:
        return None
    level, domains = shape.level, list(siblings.domains)
    if shape.level < shape.slice_level:
        chosen = _optimal_subset(trial, _by_evenness(tree, trial, domains), shape)
        if chosen is None:
            return None
        level += 1
        domains = [child for domain in chosen for child in tree.children(domain)]
    order = _assign_evenly(trial, domains, shape, siblings.threshold)
    if order is None:
        return None
    return KueueFit(level=level, domains=order, keep_shares=True), trial


def _best_siblings(
    tree: TopologyTree,
    capacity: KueueDomainCapacity,
    trial: KueueDomainCapacity,
    shape: KueueResolvedRequest,
) -> DomainSet | None:
    """The siblings with the highest threshold, then the fewest domains. Prunes ``trial``."""
    if shape.level == 0:
        families = [tree.domains(0)]
    else:
        families = [tree.children(parent) for parent in tree.domains(shape.level - 1)]
    best: DomainSet | None = None
    for family in families:
        group = _try_family(tree, (capacity, trial), shape, family, best.threshold if best else 1)
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
    original_and_trial: tuple[KueueDomainCapacity, KueueDomainCapacity],
    shape: KueueResolvedRequest,
    family: range,
    min_threshold: int,
) -> DomainSet | None:
    """Prune siblings to their threshold; retry with a lower one if no leader host remains."""
    capacity, trial = original_and_trial
    lower = tree.below(family) if shape.level < shape.slice_level else family
    greedy = _greedy(trial, lower, shape)
    if greedy is None:
        return None
    threshold = _threshold(trial, shape, greedy)
    thresholds = [threshold]
    if shape.leaders and greedy.last_follower is not None:
        thresholds.append(min(threshold, trial.led.slices[greedy.last_follower]))
    for attempt, value in enumerate(thresholds):
        if value < min_threshold or (attempt and value == threshold):
            return None
        if attempt:
            for domains in layers_below(tree, family):
                trial.restore(capacity, domains)
        _prune(tree, trial, shape, family, value)
        pruned = _greedy(trial, family, shape)
        if pruned is not None:
            return DomainSet(domains=family, threshold=value, domain_count=pruned.domain_count)
    return None


def _greedy(
    capacity: KueueDomainCapacity, domains: Sequence[int], shape: KueueResolvedRequest
) -> Greedy | None:
    """Fill the leader's host first, then the largest domains; None if the request does not fit."""
    slices_left, leaders_left, count = shape.slices, shape.leaders, 0
    last_leader = last_follower = None
    candidates: Sequence[int] = domains
    if leaders_left:
        candidates = by_capacity(capacity, domains, least_free=False, with_leader=True)
        while (
            leaders_left > 0 and count < len(candidates) and capacity.leaders[candidates[count]] > 0
        ):
            last_leader = candidates[count]
            leaders_left -= capacity.leaders[last_leader]
            slices_left -= capacity.led.slices[last_leader]
            count += 1
        if leaders_left > 0:
            return None
        candidates = candidates[count:]
    for domain in by_capacity(capacity, candidates, least_free=False):
        if slices_left <= 0 or capacity.plain.slices[domain] <= 0:
            break
        last_follower = domain
        slices_left -= capacity.plain.slices[domain]
        count += 1
    if slices_left > 0:
        return None
    return Greedy(domain_count=count, last_leader=last_leader, last_follower=last_follower)


def _threshold(capacity: KueueDomainCapacity, shape: KueueResolvedRequest, greedy: Greedy) -> int:
    """Slices that every domain of the greedy choice can hold: at most an even share."""
    threshold = shape.slices // greedy.domain_count
    if greedy.last_leader is not None:
        threshold = min(threshold, capacity.led.slices[greedy.last_leader])
    if greedy.last_follower is not None:
        threshold = min(threshold, capacity.plain.slices[greedy.last_follower])
    return threshold


def _prune(
    tree: TopologyTree,
    capacity: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    family: range,
    threshold: int,
) -> None:
    """Remove domains below the threshold: children first, then the recounted siblings."""
    no_inner_layers = (1,) * len(tree.levels)
    for child in tree.below(family):
        _prune_one(tree, capacity, shape, child, threshold)
    roll_up(tree, capacity, shape, family, no_inner_layers)
    for domain in family:
        _prune_one(tree, capacity, shape, domain, threshold)


def _prune_one(
    tree: TopologyTree,
    capacity: KueueDomainCapacity,
    shape: KueueResolvedRequest,
    domain: int,
    threshold: int,
) -> None:
    """Remove a domain below the threshold, or only as host if it is too small with the leader."""
    too_small = capacity.plain.slices[domain] < threshold
    too_small_with_leader = (
        bool(shape.leaders and capacity.leaders[domain]) and capacity.led.slices[domain] < threshold
    )
    if too_small or too_small_with_leader:
        for domains in layers_below(tree, range(domain, domain + 1)):
            capacity.clear(domains, leaders_only=not too_small)


def _optimal_subset(
    capacity: KueueDomainCapacity, domains: Sequence[int], shape: KueueResolvedRequest
) -> list[int] | None:
    """As many domains as the greedy choice uses, but with the least free capacity left."""
    greedy = _greedy(capacity, domains, shape)
    if greedy is None:
        return None
    return smallest_subset(capacity, domains, shape, greedy.domain_count)


def _by_evenness(
    tree: TopologyTree, capacity: KueueDomainCapacity, domains: Sequence[int]
) -> list[int]:
    """Sort by capacity, largest first; ties go to the most evenly filled children."""
    entropies = {domain: _entropy(capacity, tree.children(domain)) for domain in domains}
    return sorted(
        domains,
        key=lambda domain: (
            -capacity.leaders[domain],
            -capacity.led.slices[domain],
            -entropies[domain],
            domain,
        ),
    )


def _entropy(capacity: KueueDomainCapacity, domains: range) -> float:
    """Shannon entropy of how tasks fit over domains; summed in size order, so equals are equal."""
    counts = sorted(
        count for count in capacity.plain.tasks[domains.start : domains.stop] if count > 0
    )
    total = sum(counts)
    return -sum(count / total * log2(count / total) for count in counts)


def _assign_evenly(
    capacity: KueueDomainCapacity,
    domains: Sequence[int],
    shape: KueueResolvedRequest,
    threshold: int,
) -> tuple[int, ...] | None:
    """Give each chosen domain the threshold, then the remainder in order of capacity.

    Writes the result to ``capacity``.
    """
    chosen = _optimal_subset(capacity, sorted(domains), shape)
    if chosen is None:
        return None
    extra, leaders_left = shape.slices - len(chosen) * threshold, shape.leaders
    if extra < 0:
        return None
    order = by_capacity(capacity, chosen, least_free=False, with_leader=True)
    for domain in order:
        hosted = min(1, leaders_left)
        free = capacity.led.slices[domain] if hosted else capacity.plain.slices[domain]
        more = min(free - threshold, extra) if hosted or extra > 0 else 0
        leaders_left -= hosted
        extra -= more
        slices = threshold + more
        capacity.leaders[domain] = hosted
        capacity.plain.slices[domain] = capacity.led.slices[domain] = slices
        capacity.plain.tasks[domain] = slices * shape.slice_size
        capacity.led.tasks[domain] = slices * shape.slice_size - hosted
    return tuple(order) if extra <= 0 and leaders_left <= 0 else None
