"""Findings about the fleet: idle nodes, and time limits far above actual run times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bursar.governance.finding import Finding
from bursar.model.fleet.fleet import Market
from bursar.model.tenants.governance import IdleNodes, RightSize, RuleMode
from bursar.model.units import HOUR_MS, MINUTE_MS, write_duration, write_usd

PAID_BY_THE_HOUR = frozenset({Market.ON_DEMAND, Market.SPOT})
"""Owned and reserved nodes cost the same, running or not."""


class EmptyNode(NamedTuple):
    """A node without jobs."""

    node: str
    pool: str
    market: Market
    since_ms: int
    micro_usd_per_hour: int


class RunTimes(NamedTuple):
    """Run times of the successful jobs with one owner and name."""

    name: str
    queue: str
    ended: int
    longest_ms: int
    asked_ms: int
    """Time limit of the newest of them."""


def idle_nodes(rule: IdleNodes, nodes: Iterable[EmptyNode], now_ms: int) -> Iterator[Finding]:
    """Nodes paid by the hour that have been idle for too long, most expensive first."""
    idle = [
        node
        for node in nodes
        if node.market in PAID_BY_THE_HOUR and now_ms - node.since_ms >= rule.after_ms
    ]
    for node in sorted(idle, key=lambda one: (-one.micro_usd_per_hour, one.node)):
        idle_ms = now_ms - node.since_ms
        spent = node.micro_usd_per_hour * idle_ms // HOUR_MS
        yield Finding(
            rule="idle-nodes",
            mode=RuleMode.DRY_RUN,
            owner=rule.owner,
            subject=f"node {node.node}",
            text=(
                f"of pool {node.pool} has been idle for {write_duration(idle_ms)} and cost "
                f"{write_usd(spent)} in that time; the rule allows {write_duration(rule.after_ms)}"
            ),
            fix=(
                f"Take it out of the pool: that saves {write_usd(node.micro_usd_per_hour)} an hour."
            ),
            micro_usd_per_hour=node.micro_usd_per_hour,
        )


def right_size(rule: RightSize, history: Iterable[RunTimes]) -> Iterator[Finding]:
    """Time limits far above actual run times; they delay jobs, because backfill plans with them."""
    for runs in history:
        if runs.ended < rule.runs or runs.longest_ms * rule.times >= runs.asked_ms:
            continue
        suggested_ms = -(-2 * runs.longest_ms // MINUTE_MS) * MINUTE_MS
        yield Finding(
            rule="right-size",
            mode=RuleMode.DRY_RUN,
            owner=rule.owner,
            subject=f"job {runs.name[:60]!r}",
            text=(
                f"in {runs.queue} asks for {write_duration(runs.asked_ms)}, and the longest of its last "
                f"{runs.ended:,} runs took {write_duration(runs.longest_ms)}"
            ),
            fix=(
                f"Set max_hours: {suggested_ms / HOUR_MS:.2g} or so: backfill starts short jobs while long "
                "ones wait for capacity."
            ),
        )
