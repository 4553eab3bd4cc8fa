"""GPU models as traces spell them, under the catalog's names."""

from __future__ import annotations

from functools import cache

from bursar.catalog.gpu_models import find_gpu_model
from bursar.model.errors import UserError
from bursar.simulate.traces.fields import RowProblem

ANONYMOUS = "anonymous-"
"""Begins the name of a GPU type whose model the publisher of a trace hides, as in ``anonymous-g2``."""

# Spellings that only traces use.
_ALSO = {"v100m16": "v100-16gb"}


@cache
def gpu_model(name: str) -> str:
    """The catalog's name. A model we do not know is a problem of the row that names it."""
    spelling = name.strip().lower()
    if spelling.startswith(ANONYMOUS):
        return spelling
    try:
        return find_gpu_model(_ALSO.get(spelling, name)).name
    except UserError as unknown:
        hint = f". {unknown.fix}" if unknown.fix.startswith("Did you mean") else ""
        raise RowProblem(f"{name!r} is not a GPU model we know{hint}") from None


@cache
def gpu_models(names: str) -> tuple[str, ...]:
    """Several that will do, written ``a|b``; none means any."""
    return tuple(gpu_model(name) for name in names.split("|") if name)


@cache
def gpu_models_or_anonymous(names: str, anonymous: tuple[str, ...]) -> tuple[str, ...]:
    """The same where a publisher replaced some names by letters of its own."""
    return tuple(
        f"{ANONYMOUS}{name.lower()}" if name.upper() in anonymous else gpu_model(name)
        for name in names.split("|")
        if name
    )
