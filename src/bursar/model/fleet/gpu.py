"""GPU models, and the MIG profiles, geometries and instances of a GPU.

A GPU is a device with a geometry, not a bare count: whole GPUs, MIG instances and MPS shares are
three ways to request the same device. MIG instances are placed on the *memory* axis, because the
hardware fixes their starts on that axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

from bursar.model.units import MILLI

DEFAULT_MPS_CLIENT_LIMIT = 48
"""Limit of CUDA up to 13.0 for one device; 13.1 raised it to 60."""


class GpuMode(Enum):
    """How one GPU is used. The modes never mix on one GPU."""

    IDLE = "idle"
    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One size of MIG instance, and the starts that the hardware allows."""

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    max_instances: int
    memory_mib: int

    @property
    def high_starts_first(self) -> bool:
        """Small odd profiles fill from the top, so that slices 0..3 stay free for a 4g."""
        return self.compute_slices in (1, 3)

    @property
    def has_media_engines(self) -> bool:
        """A ``+me`` variant uses the GPU's only media unit, so it is created only on request."""
        return "+" in self.name


@dataclass(frozen=True, kw_only=True)
class MigGeometry:
    """MIG profiles of one GPU model.

    ``starts_measured`` is false if the valid starts were inferred from instance counts rather than read
    from a device; an engine should then prefer what the driver reports.
    """

    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]
    starts_measured: bool = True

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once, because layout lookups on the hot path are cached by geometry.

        It covers numbers only: unlike strings, they have the same hash in every process.
        """
        numbers = tuple((p.compute_slices, p.memory_mib, p.starts) for p in self.profiles)
        return hash((self.compute_slices, self.memory_slices, numbers))

    @cached_property
    def _by_name(self) -> Mapping[str, MigProfile]:
        return {profile.name: profile for profile in self.profiles}

    def find(self, name: str) -> MigProfile | None:
        """The profile of that name, or None if there is none."""
        return self._by_name.get(name)

    def __getitem__(self, name: str) -> MigProfile:
        """The profile of that name, which must exist."""
        return self._by_name[name]

    @property
    def profile_names(self) -> tuple[str, ...]:
        """Names in catalogue order, smallest first."""
        return tuple(profile.name for profile in self.profiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One model of GPU.

    ``relative_speed_milli`` weighs a GPU-hour of this model against one of an A100 (= 1000), so
    that usage on different models can be added up. ``speed_estimated`` marks weights without a
    published figure. ``mig`` is None if the model has no MIG.
    """

    name: str
    memory_mib: int
    relative_speed_milli: int
    mig: MigGeometry | None = None
    speed_estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One MIG instance: a profile, and its first memory slice."""

    profile: str
    start: int

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


Layout = tuple[MigInstance, ...]
"""MIG instances of one GPU, in order of their start. Empty: not partitioned."""


@cache
def slice_milli(geometry: MigGeometry, profile: str) -> int:
    """Fraction of a GPU that one instance counts as, in thousandths.

    The larger of its fractions of compute and memory: a profile with double memory must not look
    cheap. On a full GPU these can add up to more than 1000 (4g + 3g: 1071; 1106 at most).
    """
    size = geometry[profile]
    return max(
        MILLI * size.compute_slices // geometry.compute_slices,
        MILLI * size.memory_slices // geometry.memory_slices,
    )
