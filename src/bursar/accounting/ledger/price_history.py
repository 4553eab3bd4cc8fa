"""Recent price changes of spot pools, for estimates."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.price import SpotPoint
from bursar.model.units import DAY_MS

KEPT_MS = 90 * DAY_MS
MOST_POINTS = 4_000
"""Per pool: one change every half hour for ``KEPT_MS``."""

PriceHistorySnapshot = tuple[tuple[str, tuple[SpotPoint, ...]], ...]


class PriceHistoryByPool:
    """The recorded prices of each spot pool; other pools are not in it."""

    def __init__(self) -> None:
        self._points: dict[str, list[SpotPoint]] = {}

    def note(self, pool: Pool, at_ms: int) -> None:
        """Records the current price of a spot pool."""
        if pool.market is not Market.SPOT:
            return
        points = self._points.setdefault(pool.name, [])
        price = pool.node_micro_usd_per_hour
        if points and points[-1].node_micro_usd_per_hour == price:
            return
        points.append(SpotPoint(at_ms=at_ms, node_micro_usd_per_hour=price))
        self._drop_old(points, at_ms)

    def of(self, pool: str) -> tuple[SpotPoint, ...]:
        """The prices of a pool, oldest first; the last is current."""
        return tuple(self._points.get(pool, ()))

    def _drop_old(self, points: list[SpotPoint], now_ms: int) -> None:
        """A point holds until the next one, so it is dropped only when the next is too old as well."""
        first = max(0, len(points) - MOST_POINTS)
        while first + 1 < len(points) and points[first + 1].at_ms <= now_ms - KEPT_MS:
            first += 1
        del points[:first]

    def to_snapshot(self) -> PriceHistorySnapshot:
        return tuple((name, tuple(points)) for name, points in sorted(self._points.items()))

    def restore(self, snapshot: Iterable[tuple[str, tuple[SpotPoint, ...]]]) -> None:
        self._points = {name: list(points) for name, points in snapshot}
