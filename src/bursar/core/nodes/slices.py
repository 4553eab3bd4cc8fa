"""An index over shared GPUs: MIG instances and MPS shares.

``SlicePool`` sorts devices in the order in which a request should try them, so that a start costs
the same with ten GPUs as with ten thousand. It packs: the fullest partitioned device goes first,
because every untouched GPU can still serve a request for a whole one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from bursar.core.nodes.device import WHOLE_PERCENT, Device, DeviceKey
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.gpu import GpuMode, Layout, MigGeometry, MigInstance, slice_milli
from bursar.model.fleet.mig_layout import layouts


def choose_instance(device: Device, profile: str) -> MigInstance | None:
    """The free instance of this profile that strands the fewest slices, or None."""
    free = device.free_instances(profile)
    return free[0] if free else None


def layout_for(geometry: MigGeometry, wanted: str, demand: Mapping[str, int]) -> Layout | None:
    """The MIG layout of an idle GPU that fits ``wanted`` and serves waiting jobs with the rest.

    ``demand`` counts the waiting requests by profile; ``wanted`` counts as at least one of them.
    None when the board has no such profile. Demand beyond what one board can hold makes no
    difference, so it is clipped, which lets few cached results serve all calls.
    """
    if geometry.find(wanted) is None:
        return None
    clipped = tuple(
        min(profile.max_instances, max(demand.get(profile.name, 0), profile.name == wanted))
        for profile in geometry.profiles
    )
    return _best_layout(geometry, wanted, clipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """One maximal layout, with the values that decide the choice."""

    layout: Layout
    counts: Mapping[str, int]
    stranded_slices: int


@cache
def _choices(geometry: MigGeometry) -> tuple[_Choice, ...]:
    """One maximal layout for each mix of profiles; their positions make no difference."""
    found: dict[tuple[str, ...], _Choice] = {}
    for layout in layouts(geometry):
        mix = tuple(sorted(instance.profile for instance in layout))
        if mix not in found:
            found[mix] = _Choice(
                layout=layout, counts=Counter(mix), stranded_slices=_stranded(geometry, layout)
            )
    return tuple(found[mix] for mix in sorted(found))


@cache
def _best_layout(geometry: MigGeometry, wanted: str, demand: tuple[int, ...]) -> Layout:
    """Serves the most waiting capacity; then strands fewest slices; then has most of ``wanted``."""
    requests = dict(zip(geometry.profile_names, demand, strict=True))

    def merit(choice: _Choice) -> tuple[int, int, int]:
        served_milli = sum(
            min(count, requests[profile]) * slice_milli(geometry, profile)
            for profile, count in choice.counts.items()
        )
        return served_milli, -choice.stranded_slices, choice.counts[wanted]

    suitable = [
        choice
        for choice in _choices(geometry)
        if wanted in choice.counts and not _has_idle_media(geometry, choice, requests)
    ]
    return max(suitable, key=merit).layout


def _has_idle_media(geometry: MigGeometry, choice: _Choice, requests: Mapping[str, int]) -> bool:
    return any(
        geometry[profile].has_media_engines and not requests[profile] for profile in choice.counts
    )


def _stranded(geometry: MigGeometry, layout: Layout) -> int:
    """Compute and memory slices that no instance covers: paid for but unusable."""
    profiles = [geometry[instance.profile] for instance in layout]
    return (
        geometry.compute_slices
        - sum(profile.compute_slices for profile in profiles)
        + geometry.memory_slices
        - sum(profile.memory_slices for profile in profiles)
    )


class RankedKeys:
    """Device keys sorted by a small integer rank, then by key; moves are cheap."""

    def __init__(self, highest_rank: int) -> None:
        self._ranks: list[list[DeviceKey]] = [[] for _ in range(highest_rank + 1)]

    def __iter__(self) -> Iterator[DeviceKey]:
        return self.starting_at(0)

    def starting_at(self, lowest_rank: int) -> Iterator[DeviceKey]:
        """Keys of this rank and above, lowest first."""
        for rank in range(lowest_rank, len(self._ranks)):
            yield from self._ranks[rank]

    def add(self, rank: int, key: DeviceKey) -> None:
        insort(self._ranks[rank], key)

    def remove(self, rank: int, key: DeviceKey) -> None:
        keys = self._ranks[rank]
        index = bisect_left(keys, key)
        if index == len(keys) or keys[index] != key:
            raise BrokenInvariant(f"{key} is not among the devices of rank {rank}")
        del keys[index]


Entry = tuple[tuple[RankedKeys, int], ...]
"""Every index that contains a device, with its rank there."""


class SlicePool:
    """An index over devices of one geometry; call ``update`` after each change.

    The ``*_candidates`` iterators yield keys lazily in order of preference; the caller checks the node's
    CPU, memory and labels and takes the first that fits. An iterator is invalid after an ``update``: its
    next step raises.
    """

    def __init__(self, geometry: MigGeometry | None) -> None:
        names = geometry.profile_names if geometry else ()
        highest_rank = geometry.memory_slices if geometry else 0
        self.geometry = geometry
        self.free_by_profile = {name: RankedKeys(highest_rank) for name in names}
        self._idle = RankedKeys(0)
        self._vacant = RankedKeys(0)
        self._sharing = RankedKeys(WHOLE_PERCENT)
        self._devices: dict[DeviceKey, Device] = {}
        self._entries: dict[DeviceKey, Entry] = {}
        self._version = 0

    def __getitem__(self, key: DeviceKey) -> Device:
        return self._devices[key]

    def add(self, key: DeviceKey, device: Device) -> None:
        if key in self._devices:
            raise BrokenInvariant(f"{key} is already in the pool")
        if device.model.mig != self.geometry:
            raise BrokenInvariant(f"{key} is a {device.model.name}, with another MIG geometry")
        self._devices[key] = device
        self._entries[key] = ()
        self.update(key)

    def update(self, key: DeviceKey) -> None:
        """Reindex a device; must be called after every change of it."""
        self._move(key, self._entry(self._devices[key]))

    def slice_candidates(self, profile: str) -> Iterator[DeviceKey]:
        """Devices for a MIG instance: fullest first, then those that could be partitioned.

        A device without a free instance of the profile must be partitioned first: idle ones come before
        those with another layout and no holder.
        """
        if profile not in self.free_by_profile:
            return iter(())
        return self._watched(self._slice_candidates(profile))

    def share_candidates(self, percent: int, memory_mib: int) -> Iterator[DeviceKey]:
        """Devices for an MPS share: tightest fit first, then those without a holder.

        One of those may still have a MIG layout (see ``mode``), which must be removed first.
        """
        if not 1 <= percent <= WHOLE_PERCENT:
            return iter(())
        return self._watched(self._share_candidates(percent, memory_mib))

    def _slice_candidates(self, profile: str) -> Iterator[DeviceKey]:
        yield from self.free_by_profile[profile]
        yield from self._idle
        for key in self._vacant:
            if not self._devices[key].free_instances(profile):
                yield key

    def _share_candidates(self, percent: int, memory_mib: int) -> Iterator[DeviceKey]:
        for key in self._sharing.starting_at(percent):
            if self._devices[key].can_share(percent, memory_mib):
                yield key
        for key in self._without_holder():
            if memory_mib <= self._devices[key].model.memory_mib:
                yield key

    def _without_holder(self) -> Iterator[DeviceKey]:
        yield from self._idle
        yield from self._vacant

    def _watched(self, keys: Iterator[DeviceKey]) -> Iterator[DeviceKey]:
        version = self._version
        for key in keys:
            self._must_be_at(version)
            yield key
        self._must_be_at(version)

    def _must_be_at(self, version: int) -> None:
        if self._version != version:
            raise BrokenInvariant("the pool changed during an iteration over its candidates")

    def _entry(self, device: Device) -> Entry:
        if not device.healthy:
            return ()
        match device.mode:
            case GpuMode.IDLE:
                return ((self._idle, 0),)
            case GpuMode.MIG:
                return self._mig_entry(device)
            case GpuMode.MPS if device.accepts_client:
                return ((self._sharing, device.free_percent),)
            case _:
                return ()

    def _mig_entry(self, device: Device) -> Entry:
        rank = device.free_memory_slices
        matching = tuple(
            (self.free_by_profile[profile], rank) for profile in device.free_profiles()
        )
        return matching if device.held else (*matching, (self._vacant, 0))

    def _move(self, key: DeviceKey, after: Entry) -> None:
        before = self._entries[key]
        if before == after:
            return
        for index, rank in before:
            index.remove(rank, key)
        for index, rank in after:
            index.add(rank, key)
        self._entries[key] = after
        self._version += 1
