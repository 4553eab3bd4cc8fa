"""MIG geometries of the GPU models.

Boards have one of two shapes: 7 compute and 8 memory slices, or 4 and 4. All boards of a shape have the
same profiles except for the gigabytes in the names. So a board is defined by its shape, the gigabytes in
its profile names, and the usable memory where it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.model.fleet.gpu import MigGeometry, MigProfile
from bursar.model.units import GIB_MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class _Profile:
    compute: int
    memory: int
    starts: tuple[int, ...]
    max_instances: int
    suffix: str = ""


_SEVEN_SLICES = (
    _Profile(compute=1, memory=1, starts=(0, 1, 2, 3, 4, 5, 6), max_instances=7),
    _Profile(compute=1, memory=1, starts=(0, 1, 2, 3, 4, 5, 6), max_instances=1, suffix="+me"),
    _Profile(compute=1, memory=2, starts=(0, 2, 4, 6), max_instances=4),
    _Profile(compute=2, memory=2, starts=(0, 2, 4), max_instances=3),
    _Profile(compute=3, memory=4, starts=(0, 4), max_instances=2),
    _Profile(compute=4, memory=4, starts=(0,), max_instances=1),
    _Profile(compute=7, memory=8, starts=(0,), max_instances=1),
)
_FOUR_SLICES = (
    _Profile(compute=1, memory=1, starts=(0, 1, 2, 3), max_instances=4),
    _Profile(compute=2, memory=2, starts=(0, 2), max_instances=2),
    _Profile(compute=4, memory=4, starts=(0,), max_instances=1),
)
_FOUR_SLICES_WITH_MEDIA = (
    _FOUR_SLICES[0],
    _Profile(compute=1, memory=1, starts=(0, 1, 2, 3), max_instances=1, suffix="+me"),
    _FOUR_SLICES[1],
    _Profile(compute=2, memory=2, starts=(0, 2), max_instances=1, suffix="+me"),
    _FOUR_SLICES[2],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Board:
    """By number of memory slices: gigabytes in the profile name, measured usable MiB."""

    profiles: tuple[_Profile, ...] = _SEVEN_SLICES
    named_gb: Mapping[int, int]
    usable_mib: Mapping[int, int] = field(default_factory=dict)
    starts_measured: bool = False

    def geometry(self) -> MigGeometry:
        return MigGeometry(
            compute_slices=max(profile.compute for profile in self.profiles),
            memory_slices=max(profile.memory for profile in self.profiles),
            profiles=tuple(self._profile(profile) for profile in self.profiles),
            starts_measured=self.starts_measured,
        )

    def _profile(self, profile: _Profile) -> MigProfile:
        return MigProfile(
            name=f"{profile.compute}g.{self.named_gb[profile.memory]}gb{profile.suffix}",
            compute_slices=profile.compute,
            memory_slices=profile.memory,
            starts=profile.starts,
            max_instances=profile.max_instances,
            memory_mib=self.usable_mib.get(profile.memory) or self._estimated_mib(profile.memory),
        )

    def _estimated_mib(self, memory_slices: int) -> int:
        """Nine tenths of its share of the board: no measured instance has less."""
        slices = max(self.named_gb)
        return self.named_gb[slices] * GIB_MIB * memory_slices * 9 // (slices * 10)


_BOARDS: dict[str, _Board] = {
    "a30-24gb": _Board(
        profiles=_FOUR_SLICES_WITH_MEDIA,
        named_gb={1: 6, 2: 12, 4: 24},
        usable_mib={1: 5836, 2: 11672, 4: 23344},
        starts_measured=True,
    ),
    "a100-40gb": _Board(
        named_gb={1: 5, 2: 10, 4: 20, 8: 40},
        usable_mib={1: 4864, 2: 9984, 4: 20090, 8: 40448},
        starts_measured=True,
    ),
    "a100-80gb": _Board(
        named_gb={1: 10, 2: 20, 4: 40, 8: 80},
        usable_mib={1: 9728, 2: 19968, 4: 40192, 8: 80640},
        starts_measured=True,
    ),
    "h100-80gb": _Board(
        named_gb={1: 10, 2: 20, 4: 40, 8: 80},
        usable_mib={1: 9984, 2: 20090, 4: 40448, 8: 81152},
        starts_measured=True,
    ),
    "h100-nvl-94gb": _Board(named_gb={1: 12, 2: 24, 4: 47, 8: 94}, starts_measured=True),
    "gh200-96gb": _Board(named_gb={1: 12, 2: 24, 4: 48, 8: 96}),
    "h200-141gb": _Board(
        named_gb={1: 18, 2: 35, 4: 71, 8: 141},
        usable_mib={1: 16384, 2: 33280, 8: 143360},
    ),
    "b200-180gb": _Board(
        named_gb={1: 23, 2: 45, 4: 90, 8: 180},
        usable_mib={1: 20992, 2: 45312, 4: 91136, 8: 182784},
    ),
    "gb200-186gb": _Board(named_gb={1: 23, 2: 47, 4: 93, 8: 186}),
    "b300-269gb": _Board(named_gb={1: 34, 2: 67, 4: 135, 8: 269}),
    "gb300-278gb": _Board(named_gb={1: 35, 2: 70, 4: 139, 8: 278}),
    "rtx-pro-6000-96gb": _Board(profiles=_FOUR_SLICES, named_gb={1: 24, 2: 48, 4: 96}),
}
_GEOMETRIES = {name: board.geometry() for name, board in _BOARDS.items()}
_SAME_GEOMETRY = {"h100-pcie-80gb": "h100-80gb"}


def mig_geometry(model_name: str) -> MigGeometry | None:
    """Geometry of a model, by canonical name; None if it does not support MIG."""
    return _GEOMETRIES.get(_SAME_GEOMETRY.get(model_name, model_name))
