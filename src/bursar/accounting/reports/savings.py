"""Savings against named baselines that are computed from the same books."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from bursar.accounting.ledger.books import HourRow, market_of
from bursar.accounting.ledger.entry import QUEUE_KINDS, AccountKind
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Market
from bursar.model.units import HOUR_MS, MILLI

NODE_HOUR = MILLI * HOUR_MS


class Baseline(StrEnum):
    """What the cost is compared with."""

    ON_DEMAND_SAME_HOURS = "the same node-hours, all on-demand"
    """The same fleet, idle time included, at on-demand prices."""
    ON_DEMAND_WHILE_USED = "on-demand, and only while used"
    """No fleet: each fraction of a node rented by the millisecond while jobs held it. Hard to beat."""
    NO_SHARING = "no sharing"
    """Every slice and every share a whole GPU, at the prices that were paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The cost that was paid for what the baseline covers, and the baseline's cost."""

    baseline: Baseline
    baseline_micro_usd: int
    cost_micro_usd: int

    @property
    def saved_micro_usd(self) -> int:
        """Negative if the baseline would have been cheaper."""
        return self.baseline_micro_usd - self.cost_micro_usd

    @property
    def saved_milli(self) -> int:
        """Thousandths of the baseline."""
        if not self.baseline_micro_usd:
            return 0
        return self.saved_micro_usd * MILLI // self.baseline_micro_usd


def savings(rows: Iterable[HourRow], on_demand: Mapping[str, int]) -> tuple[Saving, ...]:
    """Savings of these hours against every baseline.

    ``on_demand`` is the hourly on-demand price of a node, by pool. On-demand pools need no price.
    """
    hours = list(rows)
    fleet = [row for row in hours if row.kind is AccountKind.CAPACITY]
    used = [row for row in hours if row.kind in QUEUE_KINDS]
    paid = -sum(row.micro_usd for row in fleet)
    return (
        Saving(
            baseline=Baseline.ON_DEMAND_SAME_HOURS,
            baseline_micro_usd=-_at_on_demand(fleet, on_demand),
            cost_micro_usd=paid,
        ),
        Saving(
            baseline=Baseline.ON_DEMAND_WHILE_USED,
            baseline_micro_usd=_at_on_demand(used, on_demand),
            cost_micro_usd=paid,
        ),
        sharing_saving(used),
    )


def sharing_saving(rows: Iterable[HourRow]) -> Saving:
    """What slices and shares of GPUs saved; needs no on-demand price."""
    used = [row for row in rows if row.kind in QUEUE_KINDS]
    return Saving(
        baseline=Baseline.NO_SHARING,
        baseline_micro_usd=sum(_unshared(row) for row in used),
        cost_micro_usd=sum(row.micro_usd for row in used),
    )


def _at_on_demand(rows: Iterable[HourRow], on_demand: Mapping[str, int]) -> int:
    paid = 0
    node_milli_ms: dict[str, int] = {}
    for row in rows:
        if row.pool in on_demand:
            node_milli_ms[row.pool] = node_milli_ms.get(row.pool, 0) + row.volume.node_milli_ms
        elif market_of(row.flavor) == Market.ON_DEMAND:
            paid += row.micro_usd
        else:
            raise UserError(
                f"the on-demand price of a node of pool {row.pool!r} ({row.flavor}) is unknown.",
                fix=f"Give its price per hour: --price {row.pool}=DOLLARS.",
                code="no-on-demand-price",
            )
    return paid + sum(
        _rounded(on_demand[pool] * time, NODE_HOUR) for pool, time in node_milli_ms.items()
    )


def _unshared(row: HourRow) -> int:
    """The cost of an hour of an account with whole GPUs, at the same price."""
    node = row.volume.node_milli_ms
    return _rounded(row.micro_usd * row.volume.unshared_milli_ms, node) if node else row.micro_usd


def _rounded(amount: int, by: int) -> int:
    return (2 * amount + by) // (2 * by)
