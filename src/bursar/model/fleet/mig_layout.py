"""Valid MIG layouts of a GPU, and the faults of invalid ones.

Everything here is a pure function of the geometry, so every result is cached. Instances must not
overlap on the memory axis; because starts are fixed, that also keeps compute within the limit of the
GPU (a test enumerates it for every known model).
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise

from bursar.model.fleet.gpu import Layout, MigGeometry, MigInstance, MigProfile


@cache
def layout_fault(geometry: MigGeometry, instances: Layout) -> str | None:
    """First fault of a layout, or None if it is valid."""
    spans: list[tuple[int, int, MigInstance]] = []
    for instance in instances:
        profile = geometry.find(instance.profile)
        if profile is None:
            known = ", ".join(geometry.profile_names)
            return f"this GPU has no {instance.profile}; it has {known}"
        if instance.start not in profile.starts:
            valid = ", ".join(str(start) for start in profile.starts)
            return (
                f"{instance.profile} cannot start at memory slice {instance.start}; "
                f"valid starts: {valid}"
            )
        spans.append((instance.start, instance.start + profile.memory_slices, instance))
    return _too_many(geometry, instances) or _overlap(spans)


def _too_many(geometry: MigGeometry, instances: Layout) -> str | None:
    counts = Counter(instance.profile for instance in instances)
    for profile in geometry.profiles:
        wanted, most = counts[profile.name], profile.max_instances
        if wanted > most:
            return f"{wanted} of {profile.name} on one GPU; at most {most} fit"
    return None


def _overlap(spans: list[tuple[int, int, MigInstance]]) -> str | None:
    ordered = sorted(spans, key=lambda span: (span[0], span[1], span[2].profile))
    for (_, end, first), (start, _, second) in pairwise(ordered):
        if start < end:
            return f"{first} and {second} overlap on the memory axis"
    return None


@cache
def layouts(geometry: MigGeometry) -> tuple[Layout, ...]:
    """Every maximal layout: one to which no further instance can be added.

    Smaller layouts are not needed: each is a maximal one with some instances unused.
    """
    maximal = [layout for layout in _extensions(geometry, (), 0) if _is_maximal(geometry, layout)]
    return tuple(sorted(maximal, key=lambda layout: [(i.start, i.profile) for i in layout]))


def _extensions(geometry: MigGeometry, placed: Layout, position: int) -> list[Layout]:
    """Every layout that extends ``placed`` from memory slice ``position`` on."""
    if position == geometry.memory_slices:
        return [placed]
    extended = _extensions(geometry, placed, position + 1)
    for profile in geometry.profiles:
        end = position + profile.memory_slices
        if position not in profile.starts or end > geometry.memory_slices:
            continue
        if _count(placed, profile) < profile.max_instances:
            instance = MigInstance(profile=profile.name, start=position)
            extended += _extensions(geometry, (*placed, instance), end)
    return extended


def _count(placed: Layout, profile: MigProfile) -> int:
    return sum(instance.profile == profile.name for instance in placed)


def _is_maximal(geometry: MigGeometry, layout: Layout) -> bool:
    occupied = {
        slot
        for instance in layout
        for slot in range(instance.start, instance.start + geometry[instance.profile].memory_slices)
    }
    return not any(
        occupied.isdisjoint(range(start, start + profile.memory_slices))
        for profile in geometry.profiles
        if _count(layout, profile) < profile.max_instances
        for start in profile.starts
    )
