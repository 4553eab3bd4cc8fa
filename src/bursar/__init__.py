"""Bursar decides who runs where, when, and at whose cost, for teams that share GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.client import Client, Job, submit

__version__ = "0.1.0"
__all__ = ["Client", "Job", "__version__", "submit"]


def __getattr__(name: str) -> object:
    """The client is loaded when it is asked for: most of what imports Bursar never does."""
    if name in ("Client", "Job", "submit"):
        from bursar import client

        return getattr(client, name)
    raise AttributeError(f"module 'bursar' has no attribute {name!r}")
