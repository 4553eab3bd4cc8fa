"""What a run pays on a market whose price moves, from the price history.

For many past start times it computes what a run of the same length would have paid, in hours at its starting
price. Quantiles of these are the estimate for a run that starts now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from bursar.model.fleet.price import SpotPoint

STARTS = 96
"""Number of past start times, evenly spread."""
PERMILLE = 1_000


class PricePath:
    """A price over time, up to now; it stays constant afterwards."""

    def __init__(self, points: Sequence[SpotPoint], now_ms: int) -> None:
        known = sorted((p.at_ms, p.node_micro_usd_per_hour) for p in points if p.at_ms <= now_ms)
        self._at_ms = [at_ms for at_ms, _ in known]
        self._prices = [max(1, price) for _, price in known]
        self._paid = [0]
        for index in range(1, len(known)):
            length = self._at_ms[index] - self._at_ms[index - 1]
            self._paid.append(self._paid[-1] + length * self._prices[index - 1])
        self._starts = self._start_times(now_ms)

    @property
    def changes(self) -> int:
        return len(self._at_ms)

    @property
    def span_ms(self) -> int:
        """Time from the first to the last change."""
        return self._at_ms[-1] - self._at_ms[0] if self._at_ms else 0

    @property
    def lowest(self) -> int | None:
        return min(self._prices, default=None)

    @property
    def highest(self) -> int | None:
        return max(self._prices, default=None)

    def paid_ms(self, wall_ms: int, permille: int) -> int:
        """Time at the current price that costs as much as such a run, at this quantile."""
        if not self._starts:
            return wall_ms
        costs = sorted(self._run_cost(start_ms, wall_ms) for start_ms in self._starts)
        return costs[min(len(costs) - 1, len(costs) * permille // PERMILLE)]

    def _start_times(self, now_ms: int) -> list[int]:
        if len(self._at_ms) < 2:
            return []
        first = self._at_ms[0]
        return [first + (now_ms - first) * number // STARTS for number in range(STARTS)]

    def _run_cost(self, start_ms: int, wall_ms: int) -> int:
        """Cost of a run, in milliseconds at its starting price."""
        paid = self._paid_until(start_ms + wall_ms) - self._paid_until(start_ms)
        return paid // self._prices[bisect_right(self._at_ms, start_ms) - 1]

    def _paid_until(self, at_ms: int) -> int:
        index = bisect_right(self._at_ms, at_ms) - 1
        return self._paid[index] + (at_ms - self._at_ms[index]) * self._prices[index]
