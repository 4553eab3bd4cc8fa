"""How each board can be cut by MIG.

Boards come in two shapes: seven compute slices over eight memory slices, and four over four. Within
a shape the cuts are the same everywhere; only the gigabytes in their names differ. So a board is a
shape, the gigabytes that its names carry, and the memory that was seen to be usable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bursar.model.fleet.gpu import MigGeometry, MigProfile
from bursar.model.fleet.mig_layout import LayoutFault, layout_fault, layouts
from bursar.model.units import GIB_MIB

__all__ = ["LayoutFault", "layout_fault", "layouts", "mig_geometry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    compute: int
    memory: int
    starts: tuple[int, ...]
    most: int
    suffix: str = ""


_SEVEN_CUTS = (
    _Cut(compute=1, memory=1, starts=(0, 1, 2, 3, 4, 5, 6), most=7),
    _Cut(compute=1, memory=1, starts=(0, 1, 2, 3, 4, 5, 6), most=1, suffix="+me"),
    _Cut(compute=1, memory=2, starts=(0, 2, 4, 6), most=4),
    _Cut(compute=2, memory=2, starts=(0, 2, 4), most=3),
    _Cut(compute=3, memory=4, starts=(0, 4), most=2),
    _Cut(compute=4, memory=4, starts=(0,), most=1),
    _Cut(compute=7, memory=8, starts=(0,), most=1),
)
_FOUR_CUTS = (
    _Cut(compute=1, memory=1, starts=(0, 1, 2, 3), most=4),
    _Cut(compute=2, memory=2, starts=(0, 2), most=2),
    _Cut(compute=4, memory=4, starts=(0,), most=1),
)
_FOUR_CUTS_WITH_MEDIA = (
    _FOUR_CUTS[0],
    _Cut(compute=1, memory=1, starts=(0, 1, 2, 3), most=1, suffix="+me"),
    _FOUR_CUTS[1],
    _Cut(compute=2, memory=2, starts=(0, 2), most=1, suffix="+me"),
    _FOUR_CUTS[2],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Board:
    """Both mappings go from a number of memory slices: to gigabytes named, to MiB seen usable."""

    cuts: tuple[_Cut, ...] = _SEVEN_CUTS
    named_gb: Mapping[int, int]
    usable_mib: Mapping[int, int] = field(default_factory=dict)
    starts_measured: bool = False

    def geometry(self) -> MigGeometry:
        return MigGeometry(
            compute_slices=max(cut.compute for cut in self.cuts),
            memory_slices=max(cut.memory for cut in self.cuts),
            profiles=tuple(self._profile(cut) for cut in self.cuts),
            starts_measured=self.starts_measured,
        )

    def _profile(self, cut: _Cut) -> MigProfile:
        return MigProfile(
            name=f"{cut.compute}g.{self.named_gb[cut.memory]}gb{cut.suffix}",
            compute_slices=cut.compute,
            memory_slices=cut.memory,
            starts=cut.starts,
            max_instances=cut.most,
            memory_mib=self.usable_mib.get(cut.memory) or self._estimated_mib(cut.memory),
        )

    def _estimated_mib(self, memory_slices: int) -> int:
        """Nine tenths of its part of the board: no instance we have figures for has less."""
        whole = max(self.named_gb)
        return self.named_gb[whole] * GIB_MIB * memory_slices * 9 // (whole * 10)


_BOARDS: dict[str, _Board] = {
    "a30-24gb": _Board(
        cuts=_FOUR_CUTS_WITH_MEDIA,
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
    "rtx-pro-6000-96gb": _Board(cuts=_FOUR_CUTS, named_gb={1: 24, 2: 48, 4: 96}),
}
_GEOMETRIES = {name: board.geometry() for name, board in _BOARDS.items()}
_CUT_LIKE = {"h100-pcie-80gb": "h100-80gb"}


def mig_geometry(model_name: str) -> MigGeometry | None:
    """How a model, by its canonical name, can be cut; None when it cannot."""
    return _GEOMETRIES.get(_CUT_LIKE.get(model_name, model_name))
