"""Maps the GPU model names in traces to the catalog's names."""

from __future__ import annotations

from functools import cache

from bursar.catalog.gpu_models import find_gpu_model
from bursar.model.errors import UserError
from bursar.simulate.traces.fields import RowProblem

ANONYMOUS = "anonymous-"
"""Prefix of a GPU type whose model the publisher hides, as in ``anonymous-g2``."""

# Spellings that only traces use.
_TRACE_SPELLINGS = {"v100m16": "v100-16gb"}


@cache
def gpu_model(name: str) -> str:
    """Returns the catalog's name; an unknown model rejects the row."""
    spelling = name.strip().lower()
    if spelling.startswith(ANONYMOUS):
        return spelling
    try:
        return find_gpu_model(_TRACE_SPELLINGS.get(spelling, name)).name
    except UserError as unknown:
        hint = f". {unknown.fix}" if unknown.fix.startswith("Did you mean") else ""
        raise RowProblem(f"{name!r} is not a known GPU model{hint}") from None


@cache
def gpu_models(names: str) -> tuple[str, ...]:
    """Parses acceptable models, written ``a|b``; empty means any."""
    return tuple(gpu_model(name) for name in names.split("|") if name)
