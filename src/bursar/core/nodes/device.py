"""The state of one GPU: its mode and its holders.

The isolation classes are strict. A device is idle, used whole, partitioned by MIG or shared by MPS, and
never two of these at once: a tenant who asked for hardware isolation must not share a device with
one who did not. Leaving MIG is an explicit operation (``partition(())``), because on the real board it is a
reconfiguration that takes time and can fail.

Every operation is on the path of every start, so counts are maintained, not recomputed.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from functools import cache
from typing import Final

from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.gpu import (
    DEFAULT_MPS_CLIENT_LIMIT,
    GpuMode,
    GpuModel,
    Layout,
    MigGeometry,
    MigInstance,
    slice_milli,
)
from bursar.model.fleet.mig_layout import layout_fault
from bursar.model.units import MILLI

WHOLE_PERCENT: Final = 100
MILLI_PER_PERCENT: Final = MILLI // WHOLE_PERCENT

# Enum members are resolved by a method call; module constants are cheaper.
_IDLE, _WHOLE = GpuMode.IDLE, GpuMode.WHOLE

DeviceKey = tuple[str, int]
"""A node's id and the number of the GPU on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShareHolding:
    """What one MPS client may use of a device."""

    percent: int
    memory_mib: int


class Device:
    """The state of one GPU. Misuse is our own fault and raises ``BrokenInvariant``.

    A holder is the id of whatever uses the device. It may hold several MIG instances or several MPS
    shares of one device, for example for several tasks of one gang.
    """

    __slots__ = (
        "_clients",
        "_free",
        "_free_memory_slices",
        "_shared_memory_mib",
        "_shared_percent",
        "healthy",
        "held",
        "layout",
        "mode",
        "model",
        "mps_client_limit",
        "shares",
        "whole_holder",
    )

    def __init__(
        self, model: GpuModel, *, mps_client_limit: int = DEFAULT_MPS_CLIENT_LIMIT
    ) -> None:
        self.model = model
        self.mps_client_limit = mps_client_limit
        self.healthy = True
        self.mode: GpuMode = _IDLE
        self.whole_holder: str | None = None
        self.layout: Layout = ()
        self.held: dict[MigInstance, str] = {}
        self.shares: dict[str, tuple[GpuShareHolding, ...]] = {}
        self._free: dict[str, list[MigInstance]] = {}
        self._free_memory_slices = 0
        self._shared_percent = 0
        self._shared_memory_mib = 0
        self._clients = 0

    def __repr__(self) -> str:
        slices = " ".join(f"{one}={self.held.get(one, '-')}" for one in self.layout)
        return f"<Device {self.model.name} {self.mode.value} {slices or self.holders}>"

    @property
    def is_vacant(self) -> bool:
        """It has no holder: it may be repartitioned, or made whole by ``partition(())``."""
        return self.mode is GpuMode.IDLE or (self.mode is GpuMode.MIG and not self.held)

    @property
    def holders(self) -> tuple[str, ...]:
        """The ids of all holders, sorted, each once."""
        whole = () if self.whole_holder is None else (self.whole_holder,)
        return tuple(sorted({*whole, *self.held.values(), *self.shares}))

    @property
    def used_milli(self) -> int:
        """The fraction in use, 0..1000, capped: held slices can add up to more than a GPU."""
        if self.mode is GpuMode.WHOLE:
            return MILLI
        held_milli = sum(slice_milli(self._geometry(), one.profile) for one in self.held)
        return min(MILLI, held_milli + MILLI_PER_PERCENT * self._shared_percent)

    @property
    def free_percent(self) -> int:
        """The percentage left for another MPS client."""
        if self.mode is GpuMode.IDLE:
            return WHOLE_PERCENT
        return WHOLE_PERCENT - self._shared_percent if self.mode is GpuMode.MPS else 0

    @property
    def accepts_client(self) -> bool:
        """Whether MPS accepts one more client, whatever its size."""
        return self._clients < self.mps_client_limit

    @property
    def free_memory_slices(self) -> int:
        """Memory slices under free instances; slices no instance covers are not counted."""
        return self._free_memory_slices

    def free_instances(self, profile: str) -> tuple[MigInstance, ...]:
        """The free instances of a profile, in the order to take them."""
        return tuple(self._free.get(profile, ())) if self.healthy else ()

    def free_profiles(self) -> tuple[str, ...]:
        """The profiles of which an instance is free, in order of name."""
        if not self.healthy:
            return ()
        return tuple(profile for profile, free in self._free.items() if free)

    def can_share(self, percent: int, memory_mib: int) -> bool:
        """Whether an MPS share of this size fits alongside the present ones."""
        if not self.healthy or self.mode not in _SHAREABLE or percent < 1 or memory_mib < 0:
            return False
        return (
            self._shared_percent + percent <= WHOLE_PERCENT
            and self._shared_memory_mib + memory_mib <= self.model.memory_mib
            and self.accepts_client
        )

    def take_whole(self, holder: str) -> None:
        if self.mode is not _IDLE or not self.healthy:
            raise self._misuse(f"{holder} cannot take it whole")
        self.mode = _WHOLE
        self.whole_holder = holder

    def release_whole(self, holder: str) -> None:
        """Undo ``take_whole``."""
        if self.mode is not _WHOLE or self.whole_holder != holder:
            raise self._misuse(f"{holder} does not hold it whole")
        self.mode = _IDLE
        self.whole_holder = None

    def take_slice(self, instance: MigInstance, holder: str) -> None:
        free = self._free.get(instance.profile)
        if not self.healthy or free is None or instance not in free:
            raise self._misuse(f"{holder} cannot take {instance}")
        free.remove(instance)
        self.held[instance] = holder
        self._count_held(instance, 1)

    def take_share(self, holder: str, percent: int, memory_mib: int) -> None:
        if not self.can_share(percent, memory_mib):
            raise self._misuse(f"{holder} cannot take a share of {percent} % and {memory_mib} MiB")
        self.mode = GpuMode.MPS
        share = GpuShareHolding(percent=percent, memory_mib=memory_mib)
        self.shares[holder] = (*self.shares.get(holder, ()), share)
        self._shared_percent += percent
        self._shared_memory_mib += memory_mib
        self._clients += 1

    def release_slice(self, instance: MigInstance, holder: str) -> None:
        """Undo ``take_slice``; the layout stays, because the next slice probably needs it."""
        if self.held.get(instance) != holder:
            raise self._misuse(f"{holder} does not hold {instance}")
        del self.held[instance]
        insort(self._free[instance.profile], instance, key=self._preference)
        self._count_held(instance, -1)

    def release_share(self, holder: str, percent: int, memory_mib: int) -> None:
        """Undo one ``take_share``; a holder may have several shares."""
        shares = list(self.shares.get(holder, ()))
        share = GpuShareHolding(percent=percent, memory_mib=memory_mib)
        if share not in shares:
            raise self._misuse(f"{holder} has no share of {percent} % and {memory_mib} MiB")
        shares.remove(share)
        self.shares[holder] = tuple(shares)
        if not shares:
            del self.shares[holder]
        self._shared_percent -= percent
        self._shared_memory_mib -= memory_mib
        self._clients -= 1
        if not self._clients:
            self.mode = GpuMode.IDLE

    def partition(self, layout: Layout) -> None:
        """Partition the device with MIG; an empty layout makes it a whole GPU again.

        Only a vacant device can be partitioned: destroying an instance under a running process fails.
        """
        if not self.is_vacant:
            raise self._misuse("cannot be partitioned while it is in use")
        fresh: dict[str, tuple[MigInstance, ...]] = {}
        free_memory_slices = 0
        if layout:
            geometry = self._geometry()
            if fault := layout_fault(geometry, layout):
                raise self._misuse(f"invalid MIG layout: {fault}")
            fresh = _taking_order(geometry, layout)
            free_memory_slices = sum(geometry[one.profile].memory_slices for one in layout)
        self.layout = layout
        self._free = {profile: list(instances) for profile, instances in fresh.items()}
        self._free_memory_slices = free_memory_slices
        self.mode = GpuMode.MIG if layout else GpuMode.IDLE

    def _preference(self, instance: MigInstance) -> int:
        return _start_preference(self._geometry(), instance)

    def _count_held(self, instance: MigInstance, sign: int) -> None:
        self._free_memory_slices -= sign * self._geometry()[instance.profile].memory_slices

    def _geometry(self) -> MigGeometry:
        if self.model.mig is None:
            raise self._misuse("has no MIG")
        return self.model.mig

    def _misuse(self, problem: str) -> BrokenInvariant:
        health = "" if self.healthy else " (unhealthy)"
        return BrokenInvariant(f"{self!r}{health}: {problem}")


_SHAREABLE: Final = (GpuMode.IDLE, GpuMode.MPS)


def _start_preference(geometry: MigGeometry, instance: MigInstance) -> int:
    """Low sorts first; taking from the preferred end leaves the longest run of free slices."""
    return -instance.start if geometry[instance.profile].high_starts_first else instance.start


@cache
def _taking_order(geometry: MigGeometry, layout: Layout) -> dict[str, tuple[MigInstance, ...]]:
    """The instances of a fresh layout by profile (in order of name), each in taking order."""
    names = sorted({instance.profile for instance in layout})
    return {
        name: tuple(
            sorted(
                (instance for instance in layout if instance.profile == name),
                key=lambda instance: (_start_preference(geometry, instance), instance.start),
            )
        )
        for name in names
    }
