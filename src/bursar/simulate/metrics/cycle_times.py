"""Durations of cycles in bounded memory: a month has millions of cycles."""

from __future__ import annotations

from array import array

import numpy as np

from bursar.simulate.metrics.quantiles import Numbers, nearest_rank
from bursar.simulate.metrics.summary import Cycles

EXACT_LIMIT = 65_536
"""Up to this many times are stored exactly; with more, all are rounded and counted."""

BITS = 8
"""Leading bits of a rounded time: it is too small by less than 1 in 128."""


class CycleTimes:
    """Times in nanoseconds: the latest exactly, earlier ones as counts of rounded times."""

    __slots__ = ("_counts", "_latest_ns")

    def __init__(self) -> None:
        self._latest_ns = array("q")
        self._counts: dict[int, int] = {}

    def add(self, cycle_ns: int) -> None:
        self._latest_ns.append(cycle_ns)
        if len(self._latest_ns) >= EXACT_LIMIT:
            self._round()

    def _round(self) -> None:
        times, counts = np.unique(_leading(self._latest()), return_counts=True)
        for time_ns, count in zip(times.tolist(), counts.tolist(), strict=True):
            self._counts[time_ns] = self._counts.get(time_ns, 0) + count
        self._latest_ns = array("q")

    def _latest(self) -> Numbers:
        return np.frombuffer(self._latest_ns, dtype=np.int64)

    def summary(self) -> Cycles:
        """Exact while few cycles have run, then to the leading bits."""
        if not self._counts:
            ordered = np.sort(self._latest())
            return Cycles(
                count=len(ordered),
                p50_ns=nearest_rank(ordered, 50),
                p99_ns=nearest_rank(ordered, 99),
            )
        self._round()
        count = sum(self._counts.values())
        return Cycles(count=count, p50_ns=self._rank(50, count), p99_ns=self._rank(99, count))

    def _rank(self, percent: int, count: int) -> int:
        """The smallest time that ``percent`` percent of the times do not exceed."""
        remaining = -(-percent * count // 100)
        for time_ns in sorted(self._counts):
            remaining -= self._counts[time_ns]
            if remaining <= 0:
                return time_ns
        return 0


def _leading(times_ns: Numbers) -> Numbers:
    """Clears all but the leading bits of the times."""
    _, bits = np.frexp(times_ns.astype(np.float64))
    cleared = np.maximum(bits.astype(np.int64) - BITS, 0)
    return (times_ns >> cleared) << cleared
