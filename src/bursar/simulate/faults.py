"""Injected faults, drawn from a seed: node losses, spot reclaims, late starts, slow runs, failures.

Each node and each attempt has its own random numbers, derived from the seed and its name. So faults do
not depend on scheduling decisions, two policies are compared under the same faults, and a node added to
a fleet does not change the faults of the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log
from random import Random

from bursar.model.event import Event, NodeAdded, NodeLost, NoticeKind, SpotNotice
from bursar.model.fleet.fleet import Fleet, Market, Node, Pool
from bursar.model.units import HOUR_MS, MILLI, MINUTE_MS

MILLION = 1_000_000
SOURCE = "simulated"
"""The source named in simulated spot notices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLosses:
    """How often nodes fail, and the mean time until they return."""

    per_million_hours: int
    mean_repair_ms: int = 4 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSeries:
    """The size of a pool over time: times of change, and the number of machines from then on.

    ``full`` is the number of machines that corresponds to the whole pool; without it, a machine is a
    node. After the end of the series the whole pool is available.
    """

    changes: tuple[tuple[int, int], ...]
    end_ms: int
    full: int | None = None

    def nodes_at_changes(self, nodes: int) -> Iterator[tuple[int, int]]:
        """Each time of change with the nodes available from then on; the end is the last change."""
        for at_ms, machines in self.changes:
            if at_ms < self.end_ms:
                available = machines if self.full is None else machines * nodes // self.full
                yield at_ms, min(nodes, max(0, available))
        yield self.end_ms, nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReclaims:
    """Spot nodes are reclaimed after a notice, by their pool's series or else by its rate.

    With ``saves_at_notice``, jobs that save checkpoints save one when they receive the notice.
    """

    notice_ms: int = 2 * MINUTE_MS
    mean_absence_ms: int = HOUR_MS
    series: Mapping[str, PoolSeries] = field(default_factory=dict)
    saves_at_notice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStarts:
    """Log-normal start delays, given by median and 90th percentile."""

    median_ms: int
    p90_ms: int
    max_ms: int = HOUR_MS

    def draw_ms(self, rng: Random) -> int:
        # The 90th percentile of a standard normal is 1.2816.
        sigma = log(max(1.0, self.p90_ms / max(1, self.median_ms))) / 1.2816
        return min(self.max_ms, round(self.median_ms * rng.lognormvariate(0, sigma)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """Some attempts are slow: their run time is multiplied, uniformly up to ``slowest_milli``."""

    chance: float
    slowest_milli: int = 3 * MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFaults:
    """The faults of one attempt.

    ``fails_at_milli`` is the fraction of its work after which it fails, None for never; ``slow_milli``
    multiplies its run time.
    """

    start_ms: int
    fails_at_milli: int | None = None
    slow_milli: int = MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutage:
    """A node is lost, possibly after a notice, and returns later.

    ``at_ms`` is the time of the notice, or of the loss without one. Unlike an event, an outage happens
    only while other events are due: after the last job it would only prolong the run.
    """

    at_ms: int
    node: Node
    lost_at_ms: int
    back_at_ms: int
    saves: bool = False

    def events(self) -> Iterator[Event]:
        if self.lost_at_ms > self.at_ms:
            yield SpotNotice(
                at_ms=self.at_ms,
                node=self.node.id,
                source=SOURCE,
                kind=NoticeKind.TERMINATE,
                ends_at_ms=self.lost_at_ms,
            )
        yield NodeLost(at_ms=self.lost_at_ms, node=self.node.id)
        yield NodeAdded(at_ms=self.back_at_ms, node=self.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """All faults of a run. No outage begins at ``until_ms`` or later."""

    seed: int
    until_ms: int
    node_losses: NodeLosses | None = None
    spot_reclaims: SpotReclaims | None = None
    slow_starts: SlowStarts | None = None
    stragglers: Stragglers | None = None
    failure_chance: float = 0.0

    def of_attempt(self, job_id: str, attempt: int, usual_start_ms: int) -> AttemptFaults:
        """Draws the faults of an attempt.

        Unused numbers are drawn too, so that options do not change each other's results.
        """
        rng = self._rng("attempt", f"{job_id}/{attempt}")
        starts, slow = self.slow_starts, self.stragglers
        fails, fails_at_milli = rng.random() < self.failure_chance, rng.randrange(MILLI)
        straggler_draw, slowdown_draw = rng.random(), rng.random()
        slow_milli = MILLI
        if slow is not None and straggler_draw < slow.chance:
            slow_milli += round(slowdown_draw * (slow.slowest_milli - MILLI))
        return AttemptFaults(
            start_ms=usual_start_ms if starts is None else starts.draw_ms(rng),
            fails_at_milli=fails_at_milli if fails else None,
            slow_milli=slow_milli,
        )

    def outages(self, fleet: Fleet) -> Iterator[NodeOutage]:
        """All outages in order of time, drawn lazily. Those of one node never overlap."""
        pools = {pool.name: pool for pool in fleet.pools}
        members: dict[str, list[Node]] = {}
        for node in sorted(fleet.nodes, key=lambda node: node.id):
            members.setdefault(node.pool, []).append(node)
        sources: list[Iterator[NodeOutage]] = []
        for name in sorted(members):
            sources += self._sources(pools[name], members[name])
        return heapq.merge(*sources, key=lambda outage: (outage.at_ms, outage.node.id))

    def _sources(self, pool: Pool, nodes: list[Node]) -> Iterator[Iterator[NodeOutage]]:
        """The outages of each node; a spot node has reclaims only, so that causes never overlap."""
        reclaims, losses = self.spot_reclaims, self.node_losses
        if reclaims is not None and pool.name in reclaims.series:
            order = list(nodes)
            self._rng("pool", pool.name).shuffle(order)
            for index, node in enumerate(order):
                yield self._by_series(node, index, len(order), pool.name)
        elif reclaims is not None and pool.market is Market.SPOT:
            for node in nodes:
                yield self._by_rate(node, pool.interruptions_per_million_hours)
        elif losses is not None:
            for node in nodes:
                yield self._by_loss(node, losses)

    def _by_loss(self, node: Node, losses: NodeLosses) -> Iterator[NodeOutage]:
        draw = _exponential(rng := self._rng("node", node.id), losses.per_million_hours)
        at_ms = draw()
        while at_ms < self.until_ms:
            back_at_ms = at_ms + _around(rng, losses.mean_repair_ms)
            yield NodeOutage(at_ms=at_ms, node=node, lost_at_ms=at_ms, back_at_ms=back_at_ms)
            at_ms = back_at_ms + draw()

    def _by_rate(self, node: Node, per_million_hours: int) -> Iterator[NodeOutage]:
        reclaims = self.spot_reclaims
        assert reclaims is not None
        draw = _exponential(rng := self._rng("node", node.id), per_million_hours)
        at_ms = draw()
        while at_ms < self.until_ms:
            lost_at_ms = at_ms + reclaims.notice_ms
            back_at_ms = lost_at_ms + _around(rng, reclaims.mean_absence_ms)
            yield NodeOutage(
                at_ms=at_ms,
                node=node,
                lost_at_ms=lost_at_ms,
                back_at_ms=back_at_ms,
                saves=reclaims.saves_at_notice,
            )
            at_ms = back_at_ms + draw()

    def _by_series(self, node: Node, index: int, nodes: int, pool: str) -> Iterator[NodeOutage]:
        """The node at ``index`` is available while the pool has more nodes than that."""
        reclaims = self.spot_reclaims
        assert reclaims is not None
        lost_at_ms: int | None = None
        back_at_ms = 0
        for at_ms, available in reclaims.series[pool].nodes_at_changes(nodes):
            if available <= index and lost_at_ms is None:
                lost_at_ms = at_ms
            elif available > index and lost_at_ms is not None:
                notice_at_ms = max(back_at_ms, lost_at_ms - reclaims.notice_ms)
                back_at_ms = at_ms
                if notice_at_ms < self.until_ms and lost_at_ms < at_ms:
                    yield NodeOutage(
                        at_ms=notice_at_ms,
                        node=node,
                        lost_at_ms=lost_at_ms,
                        back_at_ms=at_ms,
                        saves=reclaims.saves_at_notice,
                    )
                lost_at_ms = None

    def _rng(self, subject: str, name: str) -> Random:
        """Random numbers of one subject. Text seeds are hashed the same way in every process."""
        return Random(f"{self.seed}/{subject}/{name}")


def _exponential(rng: Random, per_million_hours: int) -> Callable[[], int]:
    """Draws times between events at a rate; at a rate of zero the first is never reached."""
    if per_million_hours <= 0:
        return lambda: 1 << 62
    mean_ms = HOUR_MS * MILLION / per_million_hours
    return lambda: 1 + round(rng.expovariate(1 / mean_ms))


def _around(rng: Random, mean_ms: int) -> int:
    return 1 + round(rng.expovariate(1 / max(1, mean_ms)))
