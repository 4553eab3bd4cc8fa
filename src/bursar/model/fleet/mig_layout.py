"""Which sets of MIG instances can stand on one board together, and what is wrong with the others.

Everything here is a pure function of the geometry, so every answer is cached. Two instances may not
overlap on the memory axis; because starts are fixed, that also keeps compute within the board (a
test enumerates it for every board we know).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from bursar.model.fleet.gpu import Layout, MigGeometry, MigInstance, MigProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownProfile:
    profile: str
    known_profiles: tuple[str, ...]

    def __str__(self) -> str:
        return f"this board has no {self.profile}; it has {', '.join(self.known_profiles)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongStart:
    instance: MigInstance
    legal_starts: tuple[int, ...]

    def __str__(self) -> str:
        legal = ", ".join(str(start) for start in self.legal_starts)
        return (
            f"{self.instance.profile} cannot start at memory slice {self.instance.start}; "
            f"it can at {legal}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TooManyInstances:
    profile: str
    wanted: int
    max_instances: int

    def __str__(self) -> str:
        return f"{self.wanted} of {self.profile} on one GPU; at most {self.max_instances} fit"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlappingInstances:
    first: MigInstance
    second: MigInstance

    def __str__(self) -> str:
        return f"{self.first} and {self.second} overlap on the memory axis"


LayoutFault = UnknownProfile | WrongStart | TooManyInstances | OverlappingInstances


@cache
def layout_fault(geometry: MigGeometry, instances: Layout) -> LayoutFault | None:
    """The first thing wrong with these instances standing together, or None when they can."""
    spans: list[tuple[int, int, MigInstance]] = []
    for instance in instances:
        profile = geometry.find(instance.profile)
        if profile is None:
            return UnknownProfile(profile=instance.profile, known_profiles=geometry.profile_names)
        if instance.start not in profile.starts:
            return WrongStart(instance=instance, legal_starts=profile.starts)
        spans.append((instance.start, instance.start + profile.memory_slices, instance))
    return _crowded(geometry, instances) or _overlap(spans)


def _crowded(geometry: MigGeometry, instances: Layout) -> TooManyInstances | None:
    counts = Counter(instance.profile for instance in instances)
    for profile in geometry.profiles:
        if counts[profile.name] > profile.max_instances:
            return TooManyInstances(
                profile=profile.name,
                wanted=counts[profile.name],
                max_instances=profile.max_instances,
            )
    return None


def _overlap(spans: list[tuple[int, int, MigInstance]]) -> OverlappingInstances | None:
    ordered = sorted(spans, key=lambda span: (span[0], span[1], span[2].profile))
    for (_, end, first), (start, _, second) in pairwise(ordered):
        if start < end:
            return OverlappingInstances(first=first, second=second)
    return None


@cache
def layouts(geometry: MigGeometry) -> tuple[Layout, ...]:
    """Every maximal layout: one to which no further instance can be added.

    Only maximal ones are worth ordering: a smaller one is a maximal one with some of it unused.
    """
    found = [layout for layout in _extensions(geometry, (), 0) if _is_maximal(geometry, layout)]
    return tuple(sorted(found, key=lambda layout: [(i.start, i.profile) for i in layout]))


def _extensions(geometry: MigGeometry, placed: Layout, position: int) -> list[Layout]:
    """Every way to go on from ``placed`` when memory slices below ``position`` are decided."""
    if position == geometry.memory_slices:
        return [placed]
    ways = _extensions(geometry, placed, position + 1)
    for profile in geometry.profiles:
        end = position + profile.memory_slices
        if position not in profile.starts or end > geometry.memory_slices:
            continue
        if _count(placed, profile) < profile.max_instances:
            instance = MigInstance(profile=profile.name, start=position)
            ways += _extensions(geometry, (*placed, instance), end)
    return ways


def _count(placed: Layout, profile: MigProfile) -> int:
    return sum(instance.profile == profile.name for instance in placed)


def _is_maximal(geometry: MigGeometry, layout: Layout) -> bool:
    taken = {
        slot
        for instance in layout
        for slot in range(instance.start, instance.start + geometry[instance.profile].memory_slices)
    }
    return not any(
        taken.isdisjoint(range(start, start + profile.memory_slices))
        for profile in geometry.profiles
        if _count(layout, profile) < profile.max_instances
        for start in profile.starts
    )
