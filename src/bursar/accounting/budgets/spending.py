"""What queues have spent, and what is still held for their jobs: the fold that budgets are read from.

It is told of every entry and of every job that comes and goes. What it knows is small: money by queue and
day, and for each open job with a hold, how much of it is charged already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, kind_of
from bursar.accounting.ledger.holding import NodeHolding
from bursar.accounting.ledger.meter import Meter
from bursar.accounting.ledger.node_meter import MICRO_USD, NodeMeter
from bursar.accounting.ledger.node_parts import PARTS
from bursar.accounting.ledger.open_job import OpenJob
from bursar.model.event import JobSubmitted, LoggedEvent
from bursar.model.units import DAY_MS

_USAGE, _CAPACITY = AccountKind.USAGE, AccountKind.CAPACITY
Carried = dict[str, Any]


class BudgetHold:
    """What is kept for one open job."""

    __slots__ = ("charged_micro_usd", "hold_micro_usd", "queue")

    def __init__(self, queue: str, hold_micro_usd: int, charged_micro_usd: int = 0) -> None:
        self.queue = queue
        self.hold_micro_usd = hold_micro_usd
        self.charged_micro_usd = charged_micro_usd

    @property
    def left_micro_usd(self) -> int:
        """What may still be charged to it; nothing when it has cost more than was held."""
        return max(0, self.hold_micro_usd - self.charged_micro_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accrual:
    """What has come together on one node for one attempt since it was last posted."""

    queue: str
    job_id: str
    micro_usd: int
    in_period_micro_usd: int
    micro_usd_per_hour: int


class SpendingTotals:
    """Follows a meter: give ``post`` to it as a sink, and every event to ``submitted`` or ``apply``."""

    def __init__(self) -> None:
        self.days: dict[str, dict[int, int]] = {}
        self.holds: dict[str, BudgetHold] = {}
        self.held: dict[str, int] = {}
        """What is held in each queue, beyond what is charged."""
        self.unheld: dict[str, int] = {}
        """Open jobs of each queue for which nothing is held."""

    # -- what happens ----------------------------------------------------------------------------

    def post(self, entry: LedgerEntry) -> None:
        """Only what comes from capacity is new: waste was usage before."""
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
        """A job comes; all else is told by entries and by ``over``."""
        if type(event) is JobSubmitted:
            queue = event.spec.queue
            if event.hold_micro_usd:
                self.holds[event.job_id] = BudgetHold(queue, event.hold_micro_usd)
                self.held[queue] = self.held.get(queue, 0) + event.hold_micro_usd
            else:
                self.unheld[queue] = self.unheld.get(queue, 0) + 1

    def over(self, job: OpenJob) -> None:
        """The job can cost nothing more: what is left of its hold is free again."""
        hold = self.holds.pop(job.id, None)
        if hold is None:
            self.unheld[job.queue] -= 1
        else:
            self.held[hold.queue] -= hold.left_micro_usd

    # -- questions -------------------------------------------------------------------------------

    def posted(self, queue: str, from_ms: int, to_ms: int) -> int:
        """What a queue has spent in a period of whole days, as far as it is posted."""
        days = self.days.get(queue)
        if not days:
            return 0
        return sum(amount for day_ms, amount in days.items() if from_ms <= day_ms < to_ms)

    def forget(self, before_ms: int) -> None:
        """No budget asks for days before this moment any more."""
        for queue, days in list(self.days.items()):
            self.days[queue] = {day: amount for day, amount in days.items() if day >= before_ms}

    # -- stopping and going on -------------------------------------------------------------------

    def to_snapshot(self) -> Carried:
        """Plain values for ``bring_in``."""
        return {
            "days": {queue: list(days.items()) for queue, days in sorted(self.days.items())},
            "holds": {
                job_id: [one.queue, one.hold_micro_usd, one.charged_micro_usd]
                for job_id, one in self.holds.items()
            },
            "unheld": self.unheld,
        }

    @staticmethod
    def restore(carried: Carried) -> SpendingTotals:
        """What was carried."""
        found = SpendingTotals()
        found.days = {queue: dict(map(tuple, days)) for queue, days in carried["days"].items()}
        found.unheld = dict(carried["unheld"])
        for job_id, (queue, held, charged) in carried["holds"].items():
            hold = found.holds[job_id] = BudgetHold(queue, held, charged)
            found.held[queue] = found.held.get(queue, 0) + hold.left_micro_usd
        return found


# -- what is not posted yet ------------------------------------------------------------------------


def accruals(meter: Meter, queues: Iterable[str], now_ms: int, from_ms: int) -> Iterator[Accrual]:
    """What has come together for the live attempts of some queues, right to a micro-dollar for each.

    ``from_ms`` is when a period began, on a full hour. A holder's sums never reach across a full hour,
    so what is older than the period is all that came together before its node was last touched.
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
    whole = (sums + holding.part * open_ms) * node.price // MICRO_USD + holding.banked_micro_usd
    recent = whole
    if holding.from_ms < from_ms:
        recent = holding.part * in_period_ms * node.price // MICRO_USD
    return Accrual(
        queue=holding.queue,
        job_id=holding.job_id,
        micro_usd=whole,
        in_period_micro_usd=recent,
        micro_usd_per_hour=holding.part * node.price // PARTS,
    )
