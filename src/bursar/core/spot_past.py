"""What spot pools have done so far: how often they took nodes away, and how their spells came and went.

A fold over the nodes that joined and were lost, with older days fading. A pool's declared rate is what is
believed before anything was seen, and weighs as much as one loss. A pool of spot nodes stands in one zone:
who buys in several zones declares a pool for each, and each has a past of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

from bursar.core.deadline.spells import (
    AGE_EDGES_MS,
    AGES,
    DOWN_ENDS_PER_HOUR,
    HALF_LIFE_MS,
    UP_ENDS_PER_HOUR,
    Outlook,
    age_of,
    step_of_ends,
    step_of_life,
)
from bursar.core.pool import PoolState
from bursar.model.carried import CarriedSpot
from bursar.model.fleet import Market
from bursar.model.units import HOUR_MS

MILLION = 1_000_000
UNSAID_LOSSES, UNSAID_HOURS = 0.5, 100.0
"""What a loss weighs against where no rate was declared: half of one in a hundred hours."""

UNKNOWN_AGE_MS = AGE_EDGES_MS[4]
"""Nodes that stood there when somebody began to look have been there for a while: taken to be so long."""


class PoolPast:
    """One pool's. ``losses`` and ``node_ms`` fade with the policy's half-life, spells with their own."""

    __slots__ = (
        "_believed_step",
        "_half_life_ms",
        "_outlook",
        "_pool",
        "at_ms",
        "ends",
        "expected",
        "losses",
        "node_ms",
        "nodes",
        "since_ms",
    )

    def __init__(self, pool: PoolState, half_life_ms: int) -> None:
        self._pool = pool
        self._half_life_ms = half_life_ms
        said = pool.spec.interruptions_per_million_hours
        self._believed_step = step_of_life(MILLION * HOUR_MS // said) if said else 0
        self._outlook: tuple[int, Outlook] | None = None
        self.at_ms: int | None = None
        self.since_ms = 0
        self.nodes = 0
        self.losses = 0.0
        self.node_ms = 0.0
        self.ends = (0.0, 0.0)
        self.expected = (0.0, 0.0)

    def begin(self, at_ms: int) -> None:
        """From now on somebody looks."""
        self._outlook = None
        if self.at_ms is None:
            self.at_ms = at_ms
            self.nodes = len(self._pool.nodes)
            self.since_ms = at_ms - (UNKNOWN_AGE_MS if self.nodes else 0)

    def look(self, at_ms: int, *, lost: bool) -> None:
        """The pool's nodes have just changed; whether by a loss."""
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

    def restore(self, carried: CarriedSpot | None, now_ms: int) -> None:
        """Forget what was seen while the pool was built up, and know what was carried instead."""
        at_ms = now_ms if carried is None else carried.at_ms
        self.at_ms = None
        self.begin(at_ms)
        self.losses = self.node_ms = 0.0
        self.ends = self.expected = (0.0, 0.0)
        if carried is not None:
            self.since_ms = carried.since_ms
            self.losses, self.node_ms = carried.losses, carried.node_ms
            self.ends, self.expected = carried.ends, carried.expected
        self._pool.interruptions_per_million_hours = self.per_million_hours(at_ms)

    # -- what it says ----------------------------------------------------------------------------

    def per_million_hours(self, now_ms: int) -> int:
        """How often a node is lost: what was declared and what was seen (Gamma-Poisson)."""
        said = self._pool.spec.interruptions_per_million_hours
        losses, node_ms = self._losses_by(now_ms)
        if not said and not losses:
            return 0
        before, hours = (1.0, MILLION / said) if said else (UNSAID_LOSSES, UNSAID_HOURS)
        return round(MILLION * (before + losses) / (hours + node_ms / HOUR_MS))

    def outlook(self, now_ms: int) -> Outlook:
        """The spell that the pool is in, and how fast such spells have been ending."""
        known = self._outlook
        if known is not None and known[0] == now_ms:
            return known[1]
        found = self._outlook_at(max(now_ms, self.at_ms or now_ms))
        self._outlook = now_ms, found
        return found

    def _outlook_at(self, now_ms: int) -> Outlook:
        down, up = self._faded(self.ends, now_ms)
        down_expected, up_expected = self._expected_by(now_ms)
        nodes = self.nodes if self.at_ms is not None else len(self._pool.nodes)
        return Outlook(
            up=nodes > 0,
            age=age_of(UNKNOWN_AGE_MS if self.at_ms is None else now_ms - self.since_ms),
            up_step=step_of_ends(up, up_expected, self._believed_step),
            down_step=step_of_ends(down, down_expected),
        )

    # -- fading ----------------------------------------------------------------------------------

    def _faded(self, counts: tuple[float, float], now_ms: int) -> tuple[float, float]:
        fade = 0.5 ** ((now_ms - (now_ms if self.at_ms is None else self.at_ms)) / HALF_LIFE_MS)
        return counts[0] * fade, counts[1] * fade

    def _losses_by(self, now_ms: int) -> tuple[float, float]:
        """Losses, and node time that was looked at, as they weigh now."""
        if self.at_ms is None or now_ms <= self.at_ms:
            return self.losses, self.node_ms
        fade = 0.5 ** ((now_ms - self.at_ms) / self._half_life_ms)
        seen_ms = _weight_ms(now_ms - self.at_ms, 0, self._half_life_ms)
        return self.losses * fade, self.node_ms * fade + self.nodes * seen_ms

    def _expected_by(self, now_ms: int) -> tuple[float, float]:
        """Ends that the usual shape of spells expected, on each side, with the present spell so far."""
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
    """A stretch of the past as it weighs now."""
    whole_ms = half_life_ms / log(2)
    weight: float = whole_ms * (
        0.5 ** (to_ago_ms / half_life_ms) - 0.5 ** (from_ago_ms / half_life_ms)
    )
    return weight


class SpotPast:
    """All spot pools of a fleet. A fleet without any pays nothing for it."""

    __slots__ = ("pools",)

    def __init__(self, pools: Mapping[str, PoolState], half_life_ms: int) -> None:
        self.pools = {
            name: PoolPast(pool, half_life_ms)
            for name, pool in pools.items()
            if pool.spec.market is Market.SPOT
        }

    def begin(self, at_ms: int) -> None:
        """The fleet is there from now on."""
        for past in self.pools.values():
            past.begin(at_ms)

    def look(self, pool: PoolState, at_ms: int, *, lost: bool) -> None:
        """A node has joined a pool, or was lost."""
        past = self.pools.get(pool.spec.name)
        if past is not None:
            past.look(at_ms, lost=lost)

    def outlook(self, pools: Iterable[str], now_ms: int) -> Outlook:
        """Several pools as one: there is room while any of them has some."""
        found = [self.pools[name].outlook(now_ms) for name in pools]
        if len(found) == 1:
            return found[0]
        up = [one for one in found if one.up]
        ages = [one.age for one in up or found]
        return Outlook(
            up=bool(up),
            age=max(ages) if up else min(ages),
            up_step=min(one.up_step for one in found),
            down_step=max(one.down_step for one in found),
        )

    # -- in and out of snapshots -----------------------------------------------------------------

    def carry(self) -> tuple[CarriedSpot, ...]:
        """What ``bring_in`` needs."""
        return tuple(
            CarriedSpot(
                pool=name,
                at_ms=past.at_ms,
                since_ms=past.since_ms,
                losses=past.losses,
                node_ms=past.node_ms,
                ends=past.ends,
                expected=past.expected,
            )
            for name, past in sorted(self.pools.items())
            if past.at_ms is not None
        )

    def bring_in(self, carried: Iterable[CarriedSpot], now_ms: int) -> None:
        """Go on from what was carried; a pool that is new begins now, one that is gone is forgotten."""
        known = {one.pool: one for one in carried}
        for name, past in self.pools.items():
            past.restore(known.get(name), now_ms)
