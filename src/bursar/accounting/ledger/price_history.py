"""How the prices of spot pools moved, for estimates: the newest changes of each, as they were booked."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.price import SpotPoint
from bursar.model.units import DAY_MS

KEPT_MS = 90 * DAY_MS
MOST_POINTS = 4_000
"""Of each pool: a price that changes every half hour, for as long as any is kept."""

Carried = tuple[tuple[str, tuple[SpotPoint, ...]], ...]


class PriceHistoryByPool:
    """A fold of declarations and changes of price. Pools whose price does not move are not in it."""

    def __init__(self) -> None:
        self._points: dict[str, list[SpotPoint]] = {}

    def note(self, pool: Pool, at_ms: int) -> None:
        """A spot pool costs this from now on."""
        if pool.market is not Market.SPOT:
            return
        points = self._points.setdefault(pool.name, [])
        price = pool.node_micro_usd_per_hour
        if points and points[-1].node_micro_usd_per_hour == price:
            return
        points.append(SpotPoint(at_ms=at_ms, node_micro_usd_per_hour=price))
        self._forget(points, at_ms)

    def of(self, pool: str) -> tuple[SpotPoint, ...]:
        """Oldest first; the last one is the price of now."""
        return tuple(self._points.get(pool, ()))

    def _forget(self, points: list[SpotPoint], now_ms: int) -> None:
        """One that is too old says what the price was until the next, and goes with the next."""
        first = max(0, len(points) - MOST_POINTS)
        while first + 1 < len(points) and points[first + 1].at_ms <= now_ms - KEPT_MS:
            first += 1
        del points[:first]

    def to_snapshot(self) -> Carried:
        return tuple((name, tuple(points)) for name, points in sorted(self._points.items()))

    def restore(self, carried: Iterable[tuple[str, tuple[SpotPoint, ...]]]) -> None:
        self._points = {name: list(points) for name, points in carried}
