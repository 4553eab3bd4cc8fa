"""What queues have spent by day, and what is held for their open jobs.

It receives every entry and every job that opens or closes. It stores micro-dollars by queue and day and, for
each open job with a hold, how much of it is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, kind_of
from bursar.accounting.ledger.holding import NodeHolding
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.node_fraction import WHOLE_NODE
from bursar.accounting.ledger.node_meter import MICRO_USD, NodeMeter
from bursar.accounting.ledger.open_job import OpenJob
from bursar.model.event import JobSubmitted, LoggedEvent
from bursar.model.units import DAY_MS

_USAGE, _CAPACITY = AccountKind.USAGE, AccountKind.CAPACITY
SpendingSnapshot = dict[str, Any]


@dataclass(slots=True)
class BudgetHold:
    """The amount held for one open job."""

    queue: str
    hold_micro_usd: int
    charged_micro_usd: int = 0

    @property
    def left_micro_usd(self) -> int:
        """What is still held; zero if the job has cost more than its hold."""
        return max(0, self.hold_micro_usd - self.charged_micro_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accrual:
    """The cost of one attempt on one node that is not posted yet."""

    queue: str
    job_id: str
    micro_usd: int
    in_period_micro_usd: int
    micro_usd_per_hour: int


class SpendingTotals:
    """Totals that follow a meter, which calls ``post`` and ``close_job``."""

    def __init__(self) -> None:
        self.days: dict[str, dict[int, int]] = {}
        self.holds: dict[str, BudgetHold] = {}
        self.held: dict[str, int] = {}
        """What is held in each queue, beyond what is charged."""
        self.unheld: dict[str, int] = {}
        """Open jobs of each queue for which nothing is held."""

    # -- updates ---------------------------------------------------------------------------------

    def post(self, entry: LedgerEntry) -> None:
        """Counts usage of capacity only: waste was counted before, as usage."""
        if kind_of(entry.debit) is not _USAGE or kind_of(entry.credit) is not _CAPACITY:
            return
        day_ms = entry.from_ms // DAY_MS * DAY_MS
        days = self.days.get(entry.queue) or self.days.setdefault(entry.queue, {})
        days[day_ms] = days.get(day_ms, 0) + entry.micro_usd
        hold = self.holds.get(entry.job_id)
        if hold is not None:
            before = hold.left_micro_usd
            hold.charged_micro_usd += entry.micro_usd
            self.held[hold.queue] += hold.left_micro_usd - before

    def apply(self, event: LoggedEvent) -> None:
        """Records the hold of a submitted job; other events change nothing here."""
        if type(event) is JobSubmitted:
            queue = event.spec.queue
            if event.hold_micro_usd:
                self.holds[event.job_id] = BudgetHold(queue, event.hold_micro_usd)
                self.held[queue] = self.held.get(queue, 0) + event.hold_micro_usd
            else:
                self.unheld[queue] = self.unheld.get(queue, 0) + 1

    def close_job(self, job: OpenJob) -> None:
        """Releases what is left of a finished job's hold."""
        hold = self.holds.pop(job.id, None)
        if hold is None:
            self.unheld[job.queue] -= 1
        else:
            self.held[hold.queue] -= hold.left_micro_usd

    # -- queries ---------------------------------------------------------------------------------

    def posted(self, queue: str, from_ms: int, to_ms: int) -> int:
        """What a queue has spent in a period of whole days, without accruals."""
        days = self.days.get(queue)
        if not days:
            return 0
        return sum(amount for day_ms, amount in days.items() if from_ms <= day_ms < to_ms)

    def forget(self, before_ms: int) -> None:
        """Drops the days before a time that no budget needs any more."""
        for queue, days in list(self.days.items()):
            self.days[queue] = {day: amount for day, amount in days.items() if day >= before_ms}

    # -- snapshots -------------------------------------------------------------------------------

    def to_snapshot(self) -> SpendingSnapshot:
        """Plain values for ``restore``."""
        return {
            "days": {queue: list(days.items()) for queue, days in sorted(self.days.items())},
            "holds": {
                job_id: [one.queue, one.hold_micro_usd, one.charged_micro_usd]
                for job_id, one in self.holds.items()
            },
            "unheld": self.unheld,
        }

    @staticmethod
    def restore(snapshot: SpendingSnapshot) -> SpendingTotals:
        totals = SpendingTotals()
        totals.days = {queue: dict(map(tuple, days)) for queue, days in snapshot["days"].items()}
        totals.unheld = dict(snapshot["unheld"])
        for job_id, (queue, held, charged) in snapshot["holds"].items():
            hold = totals.holds[job_id] = BudgetHold(queue, held, charged)
            totals.held[queue] = totals.held.get(queue, 0) + hold.left_micro_usd
        return totals


# -- accruals --------------------------------------------------------------------------------------


def accruals(meter: Meter, queues: Iterable[str], now_ms: int, from_ms: int) -> Iterator[Accrual]:
    """What live attempts of some queues cost since their last posting, each to the micro-dollar.

    ``from_ms`` is the start of a period, on a full hour. A holder's sums never cross a full hour, so sums
    that began before the period lie entirely before it.
    """
    wanted = frozenset(queues)
    for node in meter.nodes.values():
        for holding in node.held.values():
            if holding.queue in wanted:
                yield _accrual(node, holding, now_ms, from_ms)


def _accrual(node: NodeMeter, holding: NodeHolding, now_ms: int, from_ms: int) -> Accrual:
    open_ms = max(0, now_ms - holding.since_ms)
    in_period_ms = max(0, now_ms - max(holding.since_ms, from_ms))
    sums = holding.sums[3]
    total = (sums + holding.fraction * open_ms) * node.price // MICRO_USD + holding.banked_micro_usd
    in_period = total
    if holding.from_ms < from_ms:
        in_period = holding.fraction * in_period_ms * node.price // MICRO_USD
    return Accrual(
        queue=holding.queue,
        job_id=holding.job_id,
        micro_usd=total,
        in_period_micro_usd=in_period,
        micro_usd_per_hour=holding.fraction * node.price // WHOLE_NODE,
    )
