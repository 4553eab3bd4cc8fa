"""Means and quantiles of many integers, overall and by group.

Quantiles are by nearest rank: the p-th percentile is the smallest value that at least p percent of the
values do not exceed. It is always a value that occurred, and of no values it is 0.

Values are in arrays of eight bytes each. As Python integers, the million values of a month would take
five times the memory to sort, and ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Mean and quantiles. ``mean`` is exact up to the last bit of a float."""

    count: int = 0
    mean: float = 0.0
    p50: int = 0
    p90: int = 0
    p99: int = 0
    largest: int = 0


def nearest_rank(ordered: Numbers, percent: int) -> int:
    """The smallest of the ordered values that ``percent`` percent of them do not exceed."""
    if not len(ordered):
        return 0
    rank = -(-percent * len(ordered) // 100)
    return int(ordered[max(0, rank - 1)])


def distribution_of(values: Numbers) -> Distribution:
    if not len(values):
        return Distribution()
    ordered = np.sort(values)
    return Distribution(
        count=len(ordered),
        mean=int(ordered.sum()) / len(ordered),
        p50=nearest_rank(ordered, 50),
        p90=nearest_rank(ordered, 90),
        p99=nearest_rank(ordered, 99),
        largest=int(ordered[-1]),
    )


class Grouping:
    """Groups of values, computed once for all columns of the same rows."""

    def __init__(self, groups: Numbers, count: int) -> None:
        self._by_group = np.argsort(groups, kind="stable")
        self._ends = np.cumsum(np.bincount(groups, minlength=count))

    def of(self, column: Numbers) -> Iterator[Numbers]:
        """The values of each group."""
        begin = 0
        for end in self._ends:
            yield column[self._by_group[begin:end]]
            begin = end
