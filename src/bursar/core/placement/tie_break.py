"""Pseudo-random order from a seed and a name.

The core is deterministic: where a policy chooses a random node, the same state must give the same decision.
"""

from __future__ import annotations

from collections.abc import Iterator

_MASK = (1 << 64) - 1
_START, _PRIME = 14695981039346656037, 1099511628211
_GOLDEN = 0x9E3779B97F4A7C15


def shuffled_ranks(count: int, seed: int, name: str) -> Iterator[int]:
    """The numbers below ``count``, shuffled by a seed and a name."""
    state = _START
    for byte in f"{seed}/{name}".encode():
        state = (state ^ byte) * _PRIME & _MASK
    moved: dict[int, int] = {}
    for left in range(count, 0, -1):
        state = (state + _GOLDEN) & _MASK
        at = _mixed(state) * left >> 64
        yield moved.get(at, at)
        moved[at] = moved.get(left - 1, left - 1)


def _mixed(word: int) -> int:
    """Every bit of the result depends on every bit of the word (SplitMix64)."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _MASK
    return word ^ word >> 31
