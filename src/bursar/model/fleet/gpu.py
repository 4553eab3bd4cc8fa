"""One GPU as the scheduler sees it: its model, how it can be cut, and what a cut is.

A GPU is a device with a geometry, never a bare count: whole GPUs, MIG instances and MPS shares are
three ways to ask for the same device. Placement of MIG instances is on the *memory* axis, because
that is the axis on which the hardware fixes where an instance may start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

from bursar.model.units import MILLI

DEFAULT_MPS_CLIENT_LIMIT = 48
"""What CUDA up to 13.0 allows on one device; 13.1 raised it to 60."""


class GpuMode(Enum):
    """How one GPU is being used. Exactly one at a time: the isolation classes never mix."""

    IDLE = "idle"
    WHOLE = "whole"
    MIG = "mig"
    MPS = "mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """One size in which a GPU can be cut, and the places where the hardware allows it."""

    name: str
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    max_instances: int
    memory_mib: int

    @property
    def high_starts_first(self) -> bool:
        """Small odd profiles fill from the top, so that slices 0..3 stay whole for a 4g."""
        return self.compute_slices in (1, 3)

    @property
    def has_media_engines(self) -> bool:
        """A ``+me`` variant takes a unit there is one of, so it is cut only when asked for."""
        return "+" in self.name


@dataclass(frozen=True, kw_only=True)
class MigGeometry:
    """How one board can be cut.

    ``starts_measured`` is false where the legal starts were inferred from instance counts rather
    than read from a board; an engine should then trust what the driver reports over this.
    """

    compute_slices: int
    memory_slices: int
    profiles: tuple[MigProfile, ...]
    starts_measured: bool = True

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Layout lookups are cached by geometry on the hot path, so it is worked out once.

        It covers numbers only: unlike text, they hash alike in every process.
        """
        numbers = tuple((p.compute_slices, p.memory_mib, p.starts) for p in self.profiles)
        return hash((self.compute_slices, self.memory_slices, numbers))

    @cached_property
    def _by_name(self) -> Mapping[str, MigProfile]:
        return {profile.name: profile for profile in self.profiles}

    def find(self, name: str) -> MigProfile | None:
        """The profile of that name, or None when this board has no such cut."""
        return self._by_name.get(name)

    def __getitem__(self, name: str) -> MigProfile:
        """The profile of that name, for those who know that it exists."""
        return self._by_name[name]

    @property
    def profile_names(self) -> tuple[str, ...]:
        """In catalogue order, smallest first."""
        return tuple(profile.name for profile in self.profiles)

    def only(self, *names: str) -> MigGeometry:
        """The same board, cut into these profiles alone."""
        return MigGeometry(
            compute_slices=self.compute_slices,
            memory_slices=self.memory_slices,
            profiles=tuple(profile for profile in self.profiles if profile.name in names),
            starts_measured=self.starts_measured,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """One model of GPU.

    ``relative_speed_milli`` weighs a GPU-hour of this model against one of an A100 (= 1000), so
    that usage on different models can be added up. ``speed_estimated`` marks weights that rest on
    no published figure. ``mig`` is None where the board cannot be cut.
    """

    name: str
    memory_mib: int
    relative_speed_milli: int
    mig: MigGeometry | None = None
    speed_estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """One cut at one place: a profile, and its first memory slice."""

    profile: str
    start: int

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}"


Layout = tuple[MigInstance, ...]
"""The instances cut on one GPU, in order of their start. Empty: not partitioned."""


@cache
def slice_milli(geometry: MigGeometry, profile: str) -> int:
    """The part of a GPU that one instance takes from the others, in thousandths.

    The larger of its part of compute and its part of memory: a profile with double memory must not
    look cheap. On a full GPU these can add up to more than 1000 (4g + 3g: 1071; 1106 at most).
    """
    cut = geometry[profile]
    return max(
        MILLI * cut.compute_slices // geometry.compute_slices,
        MILLI * cut.memory_slices // geometry.memory_slices,
    )
