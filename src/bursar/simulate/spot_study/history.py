"""Reads histories of spot pools: machines and prices over time.

Four kinds of file are supported: our CSV of changes, the two recorded series that ``--faults`` reads,
and our event log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bursar.model.errors import UserError
from bursar.model.event import (
    FleetDeclared,
    NodeAdded,
    NodeLost,
    NoticeKind,
    PriceChanged,
    SpotNotice,
)
from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.units import MINUTE_MS
from bursar.simulate.spot_study.market import PoolTrack
from bursar.simulate.traces.fields import RowProblem, parse_count, parse_scaled, parse_time
from bursar.simulate.traces.input_files import open_trace, split_member
from bursar.simulate.traces.spot_series import read_machine_changes, read_spot_series
from bursar.simulate.traces.table import Columns, header_of, table_rows
from bursar.simulate.traces.trace_builder import TraceBuilder
from bursar.simulate.workload.event_log import VERSION_KEY, read_run
from bursar.simulate.workload.trace import BadRow

COLUMNS = Columns(required=("at", "machines"), optional=("pool", "usd_per_hour"))
TICK_MS = 10 * MINUTE_MS
"""How often a job checks the market, if the history contains only changes."""


class PoolChange(NamedTuple):
    """The machines of a pool from a time on, and the hourly price of one; 0 if unknown."""

    at_ms: int
    machines: int
    price_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHistory:
    """One spot pool over time; changes are in order of time, and the last is valid until the end."""

    pool: str
    changes: tuple[PoolChange, ...]
    end_ms: int
    tick_ms: int = TICK_MS

    @property
    def begin_ms(self) -> int:
        return self.changes[0].at_ms

    @property
    def has_prices(self) -> bool:
        return all(one.price_micro_usd for one in self.changes if one.machines)

    def track(self, span: range, nodes: int, spot_micro_usd: int) -> PoolTrack:
        """The price at each tick of a span; 0 while the pool has fewer machines than a job needs."""
        prices, index = [], 0
        for at_ms in span:
            while index + 1 < len(self.changes) and self.changes[index + 1].at_ms <= at_ms:
                index += 1
            now = self.changes[index]
            prices.append((now.price_micro_usd or spot_micro_usd) if now.machines >= nodes else 0)
        return PoolTrack(pool=self.pool, prices_micro_usd=tuple(prices))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotHistory:
    """The content of one file; ``on_demand_micro_usd`` is 0 if the file has no such price."""

    pools: tuple[PoolHistory, ...]
    on_demand_micro_usd: int = 0
    bad_rows: tuple[BadRow, ...] = ()


def read_history(path: str) -> SpotHistory:
    """Reads a file of any of the four kinds; its first lines show which."""
    with open_trace(path) as text:
        header = header_of(text)
        first = next((line for line in text.head if line.strip()), "")
    if VERSION_KEY in first:
        history = _read_event_log(Path(path))
    elif first.lstrip().startswith("{"):
        history = _read_series(path)
    elif set(COLUMNS.required) <= set(header):
        history = _read_table(path)
    else:
        history = _read_machine_changes(path)
    if not any(one.machines for pool in history.pools for one in pool.changes):
        raise UserError(
            f"{path} has no time with an available spot machine.",
            fix="Begin a CSV with the columns at,machines or at,pool,machines,usd_per_hour; "
            "docs/spot.md shows one.",
            code="bad-spot-history",
        )
    return history


def _read_series(path: str) -> SpotHistory:
    series = read_spot_series(path)
    prices = series.price_micro_usd or (0,) * len(series.available)
    changes = tuple(
        PoolChange(tick * series.tick_ms, machines, price)
        for tick, (machines, price) in enumerate(zip(series.available, prices, strict=False))
    )
    pool = PoolHistory(
        pool=_pool_name(path), changes=changes, end_ms=series.span_ms, tick_ms=series.tick_ms
    )
    return SpotHistory(pools=(pool,) if changes else ())


def _read_machine_changes(path: str) -> SpotHistory:
    recorded = read_machine_changes(path)
    changes = tuple(PoolChange(at_ms, machines, 0) for at_ms, machines in recorded.changes())
    return SpotHistory(
        pools=_pools({_pool_name(path): list(changes)}, max(recorded.at_ms, default=0)),
        bad_rows=recorded.bad_rows,
    )


def _read_table(path: str) -> SpotHistory:
    """``at`` is a date and time or seconds since 1970; an empty price means unchanged."""
    changes_by_pool: dict[str, list[PoolChange]] = {}
    with open_trace(path) as text:
        builder = TraceBuilder(text.name)
        for line, (at, machines, name, price) in table_rows(text, builder, COLUMNS):
            changes = changes_by_pool.setdefault(name or _pool_name(path), [])
            try:
                at_ms = parse_time(at, "at")
                if changes and at_ms < changes[-1].at_ms:
                    raise RowProblem(f"at is {at}, before the previous row of its pool")
                last = changes[-1].price_micro_usd if changes else 0
                micro_usd = parse_scaled(price, "usd_per_hour", 1_000_000) if price else last
                changes.append(PoolChange(at_ms, parse_count(machines, "machines"), micro_usd))
            except RowProblem as problem:
                builder.reject(line, str(problem))
    end_ms = max((one.at_ms for changes in changes_by_pool.values() for one in changes), default=0)
    return SpotHistory(pools=_pools(changes_by_pool, end_ms), bad_rows=builder.trace().bad_rows)


def _read_event_log(path: Path) -> SpotHistory:
    """Follows the nodes of spot pools: lost, terminated with notice, added."""
    run = read_run(path)
    pools: _LoggedPools | None = None
    end_ms = 0
    for event in run.events:
        pools = pools or _LoggedPools(run.fleet, event.at_ms)
        pools.apply(event)
        end_ms = event.at_ms
    return SpotHistory(
        pools=_pools(pools.changes if pools else {}, end_ms),
        on_demand_micro_usd=_on_demand_price(run.fleet),
    )


class _LoggedPools:
    """Usable spot nodes and their prices, as the events of a log change them."""

    def __init__(self, fleet: Fleet, at_ms: int) -> None:
        self.changes: dict[str, list[PoolChange]] = {}
        self._declare(fleet, at_ms)

    def apply(self, event: object) -> None:
        match event:
            case FleetDeclared(fleet=fleet, at_ms=at_ms):
                self._declare(fleet, at_ms)
            case NodeAdded(node=node, at_ms=at_ms):
                self._move(node.id, node.pool, at_ms)
            case NodeLost(node=name, at_ms=at_ms):
                self._move(name, None, at_ms)
            case SpotNotice(node=name, kind=NoticeKind.TERMINATE, job_id=None, at_ms=at_ms):
                self._move(name, None, at_ms)
            case PriceChanged(pool=pool, at_ms=at_ms) if pool in self._prices:
                self._prices[pool] = event.node_micro_usd_per_hour
                self._record(pool, at_ms)
            case _:
                pass

    def _declare(self, fleet: Fleet, at_ms: int) -> None:
        spot = [pool for pool in fleet.pools if pool.market is Market.SPOT]
        self._prices = {pool.name: pool.node_micro_usd_per_hour for pool in spot}
        self._pool_of = {node.id: node.pool for node in fleet.nodes if node.pool in self._prices}
        for name in sorted(self._prices):
            self._record(name, at_ms)

    def _move(self, node: str, to: str | None, at_ms: int) -> None:
        before = self._pool_of.pop(node, None)
        if to in self._prices:
            assert to is not None
            self._pool_of[node] = to
        for pool in sorted({name for name in (before, to) if name in self._prices and name}):
            self._record(pool, at_ms)

    def _record(self, pool: str, at_ms: int) -> None:
        machines = sum(one == pool for one in self._pool_of.values())
        change = PoolChange(at_ms, machines, self._prices[pool])
        self.changes.setdefault(pool, []).append(change)


def _on_demand_price(fleet: Fleet) -> int:
    """The price of the cheapest non-spot node with the GPUs of a spot pool; 0 if there is none."""
    shapes = {(p.gpu_model, p.gpus_per_node) for p in fleet.pools if p.market is Market.SPOT}
    return min(
        (
            pool.node_micro_usd_per_hour
            for pool in fleet.pools
            if pool.market is not Market.SPOT
            and (pool.gpu_model, pool.gpus_per_node) in shapes
            and pool.node_micro_usd_per_hour
        ),
        default=0,
    )


def _pools(changes_by_pool: dict[str, list[PoolChange]], end_ms: int) -> tuple[PoolHistory, ...]:
    return tuple(
        PoolHistory(pool=name, changes=tuple(changes), end_ms=end_ms)
        for name, changes in sorted(changes_by_pool.items())
        if changes
    )


def _pool_name(path: str) -> str:
    file, member = split_member(path)
    return Path(member or file).name.partition(".")[0]


def common_span(pools: Sequence[PoolHistory]) -> range:
    """The ticks for which every pool has data."""
    tick_ms = max(pool.tick_ms for pool in pools)
    begin_ms = max(pool.begin_ms for pool in pools)
    return range(begin_ms, min(pool.end_ms for pool in pools), tick_ms)
