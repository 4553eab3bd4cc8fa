"""What a user probably meant by a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MIN_SIMILARITY = 0.6
"""How alike two names must be, from 0 to 1, for one to be suggested in place of the other."""


def close_names(
    name: str, known: Iterable[str], most: int = 1, cutoff: float = MIN_SIMILARITY
) -> list[str]:
    """The known names that are most like this one, the closest first."""
    return get_close_matches(name, list(known), n=most, cutoff=cutoff)


def did_you_mean(
    name: str, known: Iterable[str], most: int = 1, cutoff: float = MIN_SIMILARITY
) -> str:
    """A question that suggests known names; empty when none is close."""
    found = close_names(name, known, most, cutoff)
    return f"Did you mean {' or '.join(map(repr, found))}?" if found else ""


def suggest_among(name: str, known: Iterable[str], cutoff: float = MIN_SIMILARITY) -> str:
    """The name that was probably meant, if any is close, and all that there are."""
    names = list(known)
    return f"{did_you_mean(name, names, 1, cutoff)} There are: {', '.join(names)}.".lstrip()
