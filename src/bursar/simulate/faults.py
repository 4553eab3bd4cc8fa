"""What goes wrong, drawn from a seed: nodes that are lost, reclaimed and returned, attempts that start
late, run slowly or fail.

Each node and each attempt has chances of its own, derived from the seed and its name. So the same
troubles come whatever the scheduler decides, two policies are compared under the same bad luck, and a
node added to a fleet changes nobody else's fate. Nothing here knows a rule of scheduling.
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
"""Who gives notice in a simulated world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLosses:
    """Machines break: so often in a million hours of one node, and are back after a while."""

    per_million_hours: int
    mean_repair_ms: int = 4 * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSeries:
    """How much of a pool there is over time: at each change, the number of machines from then on.

    ``full`` is the number that stands for the whole pool; without it machines are nodes. When the
    series ends, the pool is whole again.
    """

    changes: tuple[tuple[int, int], ...]
    end_ms: int
    full: int | None = None

    def nodes_at_changes(self, nodes: int) -> Iterator[tuple[int, int]]:
        """Each change and the nodes there are from then on, with the end as the last change."""
        for at_ms, machines in self.changes:
            if at_ms < self.end_ms:
                there = machines if self.full is None else machines * nodes // self.full
                yield at_ms, min(nodes, max(0, there))
        yield self.end_ms, nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotReclaims:
    """Spot nodes are taken away after a notice, by their pool's series or else by its rate.

    With ``saves_at_notice`` jobs that save checkpoints save one when the notice comes.
    """

    notice_ms: int = 2 * MINUTE_MS
    mean_absence_ms: int = HOUR_MS
    series: Mapping[str, PoolSeries] = field(default_factory=dict)
    saves_at_notice: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStarts:
    """Start delays are log-normal: half are below the median, one in ten above ``tenth_ms``."""

    median_ms: int
    tenth_ms: int
    most_ms: int = HOUR_MS

    def draw_ms(self, chance: Random) -> int:
        """The 90th percentile of a standard normal is 1.2816."""
        sigma = log(max(1.0, self.tenth_ms / max(1, self.median_ms))) / 1.2816
        return min(self.most_ms, round(self.median_ms * chance.lognormvariate(0, sigma)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stragglers:
    """Some attempts are slow throughout: their run time is multiplied, evenly up to the slowest."""

    chance: float
    slowest_milli: int = 3 * MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFate:
    """What is in store for one attempt.

    ``fails_at_milli`` is the part of its work after which it fails, None for never; ``slow_milli``
    multiplies its run time.
    """

    start_ms: int
    fails_at_milli: int | None = None
    slow_milli: int = MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutage:
    """A node goes: perhaps drained first, then lost, and back later.

    ``at_ms`` is when it begins to show. Unlike an event it happens only while something else goes
    on: nodes that break when all work is done are nobody's business.
    """

    at_ms: int
    node: Node
    lost_at_ms: int
    back_at_ms: int
    saves: bool = False

    def events(self) -> Iterator[Event]:
        """What it looks like from outside."""
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
    """Everything that may go wrong in a run. No outage begins at ``until_ms`` or later."""

    seed: int
    until_ms: int
    node_losses: NodeLosses | None = None
    spot_reclaims: SpotReclaims | None = None
    slow_starts: SlowStarts | None = None
    stragglers: Stragglers | None = None
    failure_chance: float = 0.0

    def fate(self, job_id: str, attempt: int, usual_start_ms: int) -> InjectedFate:
        """What is in store for an attempt; every number is drawn whether or not it is used."""
        chance = self._chance("attempt", f"{job_id}/{attempt}")
        starts, slow = self.slow_starts, self.stragglers
        fails, when = chance.random() < self.failure_chance, chance.randrange(MILLI)
        straggles, how_much = chance.random(), chance.random()
        slow_milli = MILLI
        if slow is not None and straggles < slow.chance:
            slow_milli += round(how_much * (slow.slowest_milli - MILLI))
        return InjectedFate(
            start_ms=usual_start_ms if starts is None else starts.draw_ms(chance),
            fails_at_milli=when if fails else None,
            slow_milli=slow_milli,
        )

    def outages(self, fleet: Fleet) -> Iterator[NodeOutage]:
        """Every outage in order of time, drawn as it is needed. One node's never overlap."""
        pools = {pool.name: pool for pool in fleet.pools}
        members: dict[str, list[Node]] = {}
        for node in sorted(fleet.nodes, key=lambda node: node.id):
            members.setdefault(node.pool, []).append(node)
        sources: list[Iterator[NodeOutage]] = []
        for name in sorted(members):
            sources += self._sources(pools[name], members[name])
        return heapq.merge(*sources, key=lambda outage: (outage.at_ms, outage.node.id))

    # -- small steps -----------------------------------------------------------------------------

    def _sources(self, pool: Pool, nodes: list[Node]) -> Iterator[Iterator[NodeOutage]]:
        """A spot node's loss is a reclaim, so that two causes never take one node at once."""
        reclaims, losses = self.spot_reclaims, self.node_losses
        if reclaims is not None and pool.name in reclaims.series:
            order = list(nodes)
            self._chance("pool", pool.name).shuffle(order)
            for place, node in enumerate(order):
                yield self._by_series(node, place, len(order), pool.name)
        elif reclaims is not None and pool.market is Market.SPOT:
            for node in nodes:
                yield self._by_rate(node, pool.interruptions_per_million_hours)
        elif losses is not None:
            for node in nodes:
                yield self._by_loss(node, losses)

    def _by_loss(self, node: Node, losses: NodeLosses) -> Iterator[NodeOutage]:
        chance = self._chance("node", node.id)
        draw = _exponential(chance, losses.per_million_hours)
        at_ms = draw()
        while at_ms < self.until_ms:
            back_at_ms = at_ms + _about(chance, losses.mean_repair_ms)
            yield NodeOutage(at_ms=at_ms, node=node, lost_at_ms=at_ms, back_at_ms=back_at_ms)
            at_ms = back_at_ms + draw()

    def _by_rate(self, node: Node, per_million_hours: int) -> Iterator[NodeOutage]:
        reclaims = self.spot_reclaims
        assert reclaims is not None
        chance = self._chance("node", node.id)
        draw = _exponential(chance, per_million_hours)
        at_ms = draw()
        while at_ms < self.until_ms:
            lost_at_ms = at_ms + reclaims.notice_ms
            back_at_ms = lost_at_ms + _about(chance, reclaims.mean_absence_ms)
            yield NodeOutage(
                at_ms=at_ms,
                node=node,
                lost_at_ms=lost_at_ms,
                back_at_ms=back_at_ms,
                saves=reclaims.saves_at_notice,
            )
            at_ms = back_at_ms + draw()

    def _by_series(self, node: Node, place: int, nodes: int, pool: str) -> Iterator[NodeOutage]:
        """The node at a place of the order is there while the pool has more nodes than that."""
        reclaims = self.spot_reclaims
        assert reclaims is not None
        gone_at_ms: int | None = None
        back_at_ms = 0
        for at_ms, there in reclaims.series[pool].nodes_at_changes(nodes):
            if there <= place and gone_at_ms is None:
                gone_at_ms = at_ms
            elif there > place and gone_at_ms is not None:
                shown_ms = max(back_at_ms, gone_at_ms - reclaims.notice_ms)
                back_at_ms = at_ms
                if shown_ms < self.until_ms and gone_at_ms < at_ms:
                    yield NodeOutage(
                        at_ms=shown_ms,
                        node=node,
                        lost_at_ms=gone_at_ms,
                        back_at_ms=at_ms,
                        saves=reclaims.saves_at_notice,
                    )
                gone_at_ms = None

    def _chance(self, what: str, name: str) -> Random:
        """Text seeds are hashed the same way in every process."""
        return Random(f"{self.seed}/{what}/{name}")


def _exponential(chance: Random, per_million_hours: int) -> Callable[[], int]:
    """Times between events that come so often; a rate of zero puts the first beyond all time."""
    if per_million_hours <= 0:
        return lambda: 1 << 62
    mean_ms = HOUR_MS * MILLION / per_million_hours
    return lambda: 1 + round(chance.expovariate(1 / mean_ms))


def _about(chance: Random, mean_ms: int) -> int:
    return 1 + round(chance.expovariate(1 / max(1, mean_ms)))
