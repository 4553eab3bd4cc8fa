"""Figures for monitoring, all of the same instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.accounting.budgets.budget import BudgetStatus, budget_statuses
from bursar.accounting.ledger.entry import AccountKind
from bursar.control.live.live_state import LiveState
from bursar.model.calendar import period_around
from bursar.model.tenants.tenant import BudgetPeriod


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValues:
    """``month`` figures are of this calendar month (UTC) so far; the others are of now."""

    queue_month_micro_usd: Mapping[tuple[str, str], int]
    """By queue and kind: usage, waste."""
    pool_month_micro_usd: Mapping[tuple[str, str], int]
    """By pool and kind: cost of the fleet, and its use."""
    idle_micro_usd_per_hour: Mapping[str, int]
    """By pool: current cost of unused resources."""
    budgets: tuple[BudgetStatus, ...]
    parents: Mapping[str, str | None]
    waiting: Mapping[str, int]
    running: Mapping[str, int]
    gpus: Mapping[str, tuple[int, int]]
    """By pool: total and in use."""


def read_metric_values(live: LiveState, now_ms: int) -> MetricValues:
    """Reads all figures; runs on the writer thread."""
    state, ledger, monitor = live.state, live.books.ledger, live.books.budgets
    month = ledger.at(now_ms).between(*period_around(BudgetPeriod.MONTH, now_ms))
    queues: dict[tuple[str, str], int] = {}
    pools: dict[tuple[str, str], int] = {}
    for row in month.hour_rows():
        sign = -1 if row.kind is AccountKind.CAPACITY else 1
        pool_key = row.pool, row.kind.value
        pools[pool_key] = pools.get(pool_key, 0) + sign * row.micro_usd
        if row.kind in (AccountKind.USAGE, AccountKind.WASTE):
            queue_key = row.account.partition(":")[2], row.kind.value
            queues[queue_key] = queues.get(queue_key, 0) + row.micro_usd
    return MetricValues(
        queue_month_micro_usd=queues,
        pool_month_micro_usd=pools,
        idle_micro_usd_per_hour=_idle(live),
        budgets=tuple(budget_statuses(monitor.tree, monitor.spending, monitor.meter, now_ms)),
        parents=dict(state.parents),
        waiting=_waiting(live),
        running={queue: len(jobs) for queue, jobs in state.running_in.items()},
        gpus=_gpus(live),
    )


def _idle(live: LiveState) -> dict[str, int]:
    idle = dict.fromkeys(live.state.pools, 0)
    for meter in live.books.ledger.meter.nodes.values():
        idle[meter.shape.name] = idle.get(meter.shape.name, 0) + meter.idle_micro_usd_per_hour
    return idle


def _waiting(live: LiveState) -> dict[str, int]:
    waiting: dict[str, int] = {}
    for backlog in live.state.active.values():
        waiting[backlog.kind.queue] = waiting.get(backlog.kind.queue, 0) + backlog.count
    return waiting


def _gpus(live: LiveState) -> dict[str, tuple[int, int]]:
    return {
        name: (
            len(pool.nodes) * pool.spec.gpus_per_node,
            sum(len(node.devices) - node.free_gpus for node in pool.nodes if node.up),
        )
        for name, pool in live.state.pools.items()
    }
