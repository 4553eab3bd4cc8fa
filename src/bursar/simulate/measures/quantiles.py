"""Means and quantiles of many integers, overall and by group, with one sort.

Quantiles are by nearest rank: the p-th percentile is the smallest value that at least p percent of the
values do not exceed. It is always a value that occurred, and of no values it is 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a quantity is distributed. ``mean`` is exact up to the last bit of a float."""

    count: int = 0
    mean: float = 0.0
    p50: int = 0
    p90: int = 0
    p99: int = 0
    largest: int = 0


def nearest_rank(ordered: Sequence[int], percent: int) -> int:
    """The smallest of the ordered values that ``percent`` percent of them do not exceed."""
    if not ordered:
        return 0
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(0, rank - 1)]


def spread_of(ordered: Sequence[int]) -> Spread:
    """The spread of values in ascending order."""
    if not ordered:
        return Spread()
    return Spread(
        count=len(ordered),
        mean=sum(ordered) / len(ordered),
        p50=nearest_rank(ordered, 50),
        p90=nearest_rank(ordered, 90),
        p99=nearest_rank(ordered, 99),
        largest=ordered[-1],
    )


def ordered_by_group(
    values: Sequence[int], groups: Sequence[int], order: Sequence[int], count: int
) -> list[array[int]]:
    """The values of each group in ascending order; ``order`` is that of all values together."""
    found: list[array[int]] = [array("q") for _ in range(count)]
    for index in order:
        found[groups[index]].append(values[index])
    return found


def ascending(values: Sequence[int]) -> list[int]:
    """The indexes of the values, least value first."""
    return sorted(range(len(values)), key=values.__getitem__)
