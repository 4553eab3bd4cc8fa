"""The known GPU models: canonical names, aliases, memory and speed.

A canonical name is the model and its nominal gigabytes. Engines, clouds and users spell it differently;
every known spelling is an alias, so that one GPU never counts as two flavors.
"""

from __future__ import annotations

import re

from bursar.catalog.mig_geometries import mig_geometry
from bursar.model.errors import UserError
from bursar.model.fleet.gpu import GpuModel
from bursar.model.suggestion import close_names
from bursar.model.units import MILLI

A100_DECI_TFLOPS = 3120
"""Tenths of a TFLOPS; the speed of every model is relative to this."""

# Name, memory as the driver reports it (ECC on), tenths of the vendor's dense BF16 tensor TFLOPS
# (FP16 before Ampere, FP16 or FP32 without tensor cores), and aliases.
_MODELS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("k80-12gb", 11441, 44, ("k80",)),
    ("m60-8gb", 7680, 48, ("m60",)),
    ("p4-8gb", 7680, 55, ("p4",)),
    ("p100-16gb", 16280, 212, ("p100", "p100-pcie-16gb", "p100-sxm2-16gb")),
    ("v100-16gb", 16160, 1250, ("v100", "v100-sxm2-16gb", "v100-pcie-16gb")),
    (
        "v100-32gb",
        32510,
        1250,
        ("v100m32", "v100-sxm2-32gb", "v100-sxm3-32gb", "v100-pcie-32gb", "v100s-pcie-32gb"),
    ),
    ("t4-16gb", 15360, 650, ("t4",)),
    ("a100-40gb", 40960, 3120, ("a100", "a100-sxm4-40gb", "a100-pcie-40gb", "a100-40gb-sxm4")),
    (
        "a100-80gb",
        81920,
        3120,
        ("a100-80g", "a100-80gb-sxm", "a100-sxm4-80gb", "a100-pcie-80gb", "a100-80gb-pcie"),
    ),
    ("a30-24gb", 24576, 1650, ("a30",)),
    ("a40-48gb", 46068, 1497, ("a40",)),
    ("a10-24gb", 23028, 1250, ("a10",)),
    ("a10g-24gb", 23028, 700, ("a10g",)),
    ("rtx-a6000-48gb", 49140, 1548, ("a6000", "rtxa6000", "rtx-a6000")),
    ("rtx-3090-24gb", 24576, 710, ("rtx3090", "rtx-3090", "geforce-rtx-3090")),
    ("rtx-4090-24gb", 24564, 1652, ("rtx4090", "rtx-4090", "geforce-rtx-4090")),
    (
        "rtx-6000-ada-48gb",
        49140,
        3642,
        ("rtx6000-ada", "rtx-6000-ada", "rtx-6000-ada-generation"),
    ),
    ("l4-24gb", 23034, 1210, ("l4",)),
    ("l40-48gb", 46068, 1810, ("l40",)),
    ("l40s-48gb", 46068, 3620, ("l40s",)),
    (
        "h100-80gb",
        81559,
        9890,
        ("h100", "h100-sxm", "h100-sxm5", "h100-80gb-hbm3", "h100-mega", "h100-mega-80gb"),
    ),
    ("h100-pcie-80gb", 81559, 7560, ("h100-pcie", "h100-80gb-pcie")),
    ("h100-nvl-94gb", 95830, 8350, ("h100-nvl", "h100-94gb")),
    ("gh200-96gb", 97871, 9890, ("gh200", "gh200-480gb")),
    ("h20-96gb", 97871, 1480, ("h20",)),
    ("h200-141gb", 143771, 9890, ("h200", "h200-sxm", "h200-141gb-hbm3e")),
    ("b200-180gb", 183359, 22500, ("b200", "b200-sxm")),
    ("gb200-186gb", 189471, 25000, ("gb200",)),
    ("b300-269gb", 275040, 22500, ("b300", "b300-sxm6-ac")),
    ("gb300-278gb", 284208, 25000, ("gb300",)),
    (
        "rtx-pro-6000-96gb",
        97887,
        5038,
        ("rtxpro6000", "rtx-pro-6000", "rtx-pro-6000-blackwell-server-edition"),
    ),
    ("mi300x-192gb", 196592, 13070, ("mi300x", "instinct-mi300x", "instinct-mi300x-oam")),
)

# No vendor figure for this board: taken from a similar board or another precision.
_ESTIMATED = frozenset({"k80-12gb", "m60-8gb", "p4-8gb", "gb300-278gb", "rtx-pro-6000-96gb"})

_VENDOR = re.compile(r"^(nvidia-|amd-|tesla-)+")
_SHARING_SUFFIX = re.compile(r"-(shared|mig-.*)$")


def _build() -> tuple[dict[str, GpuModel], dict[str, GpuModel]]:
    by_name: dict[str, GpuModel] = {}
    by_alias: dict[str, GpuModel] = {}
    for name, memory_mib, deci_tflops, aliases in _MODELS:
        model = GpuModel(
            name=name,
            memory_mib=memory_mib,
            relative_speed_milli=deci_tflops * MILLI // A100_DECI_TFLOPS,
            mig=mig_geometry(name),
            speed_estimated=name in _ESTIMATED,
        )
        by_name[name] = model
        by_alias |= dict.fromkeys((name, *aliases), model)
    return by_name, by_alias


_BY_NAME, _BY_ALIAS = _build()

GPU_MODELS: tuple[GpuModel, ...] = tuple(_BY_NAME[name] for name in sorted(_BY_NAME))
"""All known models, sorted by name."""


def find_gpu_model(name: str) -> GpuModel:
    """Finds a model by its canonical name or an alias.

    ``A100`` means the 40 GB and ``V100`` the 16 GB model, as in the catalogues of clouds.
    """
    normalised = plain_spelling(name)
    model = _BY_ALIAS.get(normalised)
    if model is None:
        raise _unknown_model(name, normalised)
    return model


def plain_spelling(name: str) -> str:
    """Lower case with dashes, without vendor prefix and device plugin suffix."""
    spelling = re.sub(r"[\s_]+", "-", name.strip().lower())
    return _SHARING_SUFFIX.sub("", _VENDOR.sub("", spelling))


def _unknown_model(name: str, normalised: str) -> UserError:
    aliases = close_names(normalised, sorted(_BY_ALIAS), 3)
    suggestions = sorted({_BY_ALIAS[spelling].name for spelling in aliases})
    if suggestions:
        fix = f"Did you mean {' or '.join(map(repr, suggestions))}?"
    else:
        fix = f"Write one of {', '.join(model.name for model in GPU_MODELS)}."
    return UserError(
        f"{name!r} is not a known GPU model.",
        fix=fix,
        code="unknown-gpu-model",
    )
