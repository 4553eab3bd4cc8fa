"""Interruption rates and availability of spot pools, learned from events.

Computed from the nodes that joined and were lost, with exponential decay. A pool's declared rate is the
prior and weighs as much as one loss. A spot pool is in one zone: a fleet with several zones declares a pool
for each, and each has its own history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

from bursar.core.deadline.availability import (
    AGE_EDGES_MS,
    AGES,
    DOWN_ENDS_PER_HOUR,
    HALF_LIFE_MS,
    UP_ENDS_PER_HOUR,
    AvailabilityEstimate,
    age_of,
    step_of_ends,
    step_of_life,
)
from bursar.core.nodes.pool import PoolState
from bursar.model.fleet.fleet import Market
from bursar.model.state_snapshot import SpotSnapshot
from bursar.model.units import HOUR_MS

MILLION = 1_000_000
PRIOR_LOSSES, PRIOR_HOURS = 0.5, 100.0
"""The prior where no rate was declared: half a loss in a hundred hours."""

UNKNOWN_AGE_MS = AGE_EDGES_MS[4]
"""The assumed age of nodes that were present when observation began."""


OBSERVED = ("at_ms", "since_ms", "losses", "node_ms", "ends", "expected")
"""What a snapshot of a history has."""


class SpotPoolHistory:
    """The history of one pool; all counts decay with their half-life."""

    def __init__(self, pool: PoolState, half_life_ms: int) -> None:
        self._pool = pool
        self._half_life_ms = half_life_ms
        declared = pool.spec.interruptions_per_million_hours
        self._prior_step = step_of_life(MILLION * HOUR_MS // declared) if declared else 0
        self._availability: tuple[int, AvailabilityEstimate] | None = None
        self.at_ms: int | None = None
        self.since_ms = 0
        self.nodes = 0
        self.losses = 0.0
        self.node_ms = 0.0
        self.ends = (0.0, 0.0)
        self.expected = (0.0, 0.0)

    def begin(self, at_ms: int) -> None:
        """Begin to observe the pool."""
        self._availability = None
        if self.at_ms is None:
            self.at_ms = at_ms
            self.nodes = len(self._pool.nodes)
            self.since_ms = at_ms - (UNKNOWN_AGE_MS if self.nodes else 0)

    def observe(self, at_ms: int, *, lost: bool) -> None:
        """Record a change of the pool's nodes, by a loss or otherwise."""
        self.begin(at_ms)
        assert self.at_ms is not None
        at_ms = max(at_ms, self.at_ms)
        was_up, self.expected = self.nodes > 0, self._expected_by(at_ms)
        self.ends = self._faded(self.ends, at_ms)
        self.losses, self.node_ms = self._losses_by(at_ms)
        self.losses += lost
        self.at_ms, self.nodes = at_ms, len(self._pool.nodes)
        if was_up is not (self.nodes > 0):
            down, up = self.ends
            self.ends = (down, up + 1.0) if was_up else (down + 1.0, up)
            self.since_ms = at_ms
        self._pool.interruptions_per_million_hours = self.per_million_hours(at_ms)

    def restore(self, snapshot: SpotSnapshot | None, now_ms: int) -> None:
        """Replace the history by a snapshot, or by an empty one."""
        at_ms = now_ms if snapshot is None else snapshot.at_ms
        self.at_ms = None
        self.begin(at_ms)
        self.losses = self.node_ms = 0.0
        self.ends = self.expected = (0.0, 0.0)
        if snapshot is not None:
            for name in OBSERVED:
                setattr(self, name, getattr(snapshot, name))
        self._pool.interruptions_per_million_hours = self.per_million_hours(at_ms)

    # -- estimates -------------------------------------------------------------------------------

    def per_million_hours(self, now_ms: int) -> int:
        """The rate of losses from the prior and the observations (Gamma-Poisson)."""
        declared = self._pool.spec.interruptions_per_million_hours
        losses, node_ms = self._losses_by(now_ms)
        if not declared and not losses:
            return 0
        before, hours = (1.0, MILLION / declared) if declared else (PRIOR_LOSSES, PRIOR_HOURS)
        return round(MILLION * (before + losses) / (hours + node_ms / HOUR_MS))

    def availability(self, now_ms: int) -> AvailabilityEstimate:
        """The current availability interval, and how fast such intervals end."""
        known = self._availability
        if known is not None and known[0] == now_ms:
            return known[1]
        found = self._availability_at(max(now_ms, self.at_ms or now_ms))
        self._availability = now_ms, found
        return found

    def _availability_at(self, now_ms: int) -> AvailabilityEstimate:
        down, up = self._faded(self.ends, now_ms)
        down_expected, up_expected = self._expected_by(now_ms)
        nodes = self.nodes if self.at_ms is not None else len(self._pool.nodes)
        return AvailabilityEstimate(
            up=nodes > 0,
            age=age_of(UNKNOWN_AGE_MS if self.at_ms is None else now_ms - self.since_ms),
            up_step=step_of_ends(up, up_expected, self._prior_step),
            down_step=step_of_ends(down, down_expected),
        )

    # -- decay -----------------------------------------------------------------------------------

    def _faded(self, counts: tuple[float, float], now_ms: int) -> tuple[float, float]:
        fade = 0.5 ** ((now_ms - (now_ms if self.at_ms is None else self.at_ms)) / HALF_LIFE_MS)
        return counts[0] * fade, counts[1] * fade

    def _losses_by(self, now_ms: int) -> tuple[float, float]:
        """Losses and observed node time, decayed to now."""
        if self.at_ms is None or now_ms <= self.at_ms:
            return self.losses, self.node_ms
        fade = 0.5 ** ((now_ms - self.at_ms) / self._half_life_ms)
        seen_ms = _weight_ms(now_ms - self.at_ms, 0, self._half_life_ms)
        return self.losses * fade, self.node_ms * fade + self.nodes * seen_ms

    def _expected_by(self, now_ms: int) -> tuple[float, float]:
        """Expected ends of intervals (down, up), the current one included."""
        down, up = self._faded(self.expected, now_ms)
        if self.at_ms is None or now_ms <= self.at_ms:
            return down, up
        rates = UP_ENDS_PER_HOUR if self.nodes else DOWN_ENDS_PER_HOUR
        more = 0.0
        for age in range(AGES):
            begins_ms = max(self.at_ms, self.since_ms + AGE_EDGES_MS[age])
            last = age + 1 == AGES
            ends_ms = now_ms if last else min(now_ms, self.since_ms + AGE_EDGES_MS[age + 1])
            if begins_ms < ends_ms:
                weight_ms = _weight_ms(now_ms - begins_ms, now_ms - ends_ms, HALF_LIFE_MS)
                more += rates[age] * weight_ms / HOUR_MS
        return (down, up + more) if self.nodes else (down + more, up)


def _weight_ms(from_ago_ms: int, to_ago_ms: int, half_life_ms: int) -> float:
    """The decayed weight of a past interval."""
    whole_ms = half_life_ms / log(2)
    weight: float = whole_ms * (
        0.5 ** (to_ago_ms / half_life_ms) - 0.5 ** (from_ago_ms / half_life_ms)
    )
    return weight


class SpotPoolHistories:
    """The histories of all spot pools of a fleet."""

    def __init__(self, pools: Mapping[str, PoolState], half_life_ms: int) -> None:
        self.pools = {
            name: SpotPoolHistory(pool, half_life_ms)
            for name, pool in pools.items()
            if pool.spec.market is Market.SPOT
        }

    def begin(self, at_ms: int) -> None:
        """Begin to observe all pools."""
        for history in self.pools.values():
            history.begin(at_ms)

    def observe(self, pool: PoolState, at_ms: int, *, lost: bool) -> None:
        """Record that a node joined a pool, or was lost."""
        history = self.pools.get(pool.spec.name)
        if history is not None:
            history.observe(at_ms, lost=lost)

    def availability(self, pools: Iterable[str], now_ms: int) -> AvailabilityEstimate:
        """Several pools as one, available while any of them is."""
        found = [self.pools[name].availability(now_ms) for name in pools]
        if len(found) == 1:
            return found[0]
        up = [one for one in found if one.up]
        ages = [one.age for one in up or found]
        return AvailabilityEstimate(
            up=bool(up),
            age=max(ages) if up else min(ages),
            up_step=min(one.up_step for one in found),
            down_step=max(one.down_step for one in found),
        )

    # -- snapshots -------------------------------------------------------------------------------

    def to_snapshot(self) -> tuple[SpotSnapshot, ...]:
        """What ``restore`` needs."""
        return tuple(
            SpotSnapshot(pool=name, **{one: getattr(history, one) for one in OBSERVED})
            for name, history in sorted(self.pools.items())
            if history.at_ms is not None
        )

    def restore(self, snapshot: Iterable[SpotSnapshot], now_ms: int) -> None:
        """Restore all histories; a new pool begins now, a removed one is dropped."""
        known = {one.pool: one for one in snapshot}
        for name, history in self.pools.items():
            history.restore(known.get(name), now_ms)
