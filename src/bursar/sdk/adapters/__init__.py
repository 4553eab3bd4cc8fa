"""Checkpoints for frameworks. Each module loads its framework only when it is used."""

from __future__ import annotations

import importlib
from typing import Any

from bursar.sdk.errors import CheckpointProblem


def framework(name: str, package: str, *modules: str) -> Any:
    """The first of a framework's modules that can be imported."""
    for module in modules:
        try:
            return importlib.import_module(module)
        except ImportError:
            continue
    raise CheckpointProblem(
        f"{name} is not installed", fix=f"add 'pip install {package}' to the setup of the job"
    )
