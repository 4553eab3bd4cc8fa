"""Suggests known names for a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MIN_SIMILARITY = 0.6
"""How similar two names must be, from 0 to 1, for a suggestion."""


def close_names(
    name: str, known: Iterable[str], most: int = 1, cutoff: float = MIN_SIMILARITY
) -> list[str]:
    """The known names most similar to this one, closest first."""
    return get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(
    name: str, known: Iterable[str], most: int = 1, cutoff: float = MIN_SIMILARITY
) -> str:
    """A question that suggests known names; empty if none is close."""
    names = close_names(name, known, most, cutoff)
    return f"Did you mean {' or '.join(map(repr, names))}?" if names else ""


def suggest_among(name: str, known: Iterable[str], cutoff: float = MIN_SIMILARITY) -> str:
    """The closest name, if any, and the list of all names."""
    names = list(known)
    return f"{did_you_mean(name, names, 1, cutoff)} There are: {', '.join(names)}.".lstrip()
