"""Iterates over the backlogs of a cycle in scheduling order.

Scheduling, queue positions, the queue listing and the lookahead all iterate with it, so they agree about
the order and about strict queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bursar.core.draft import Draft
from bursar.core.ordering.kind_order import KindOrder
from bursar.core.ordering.urgency import order_for
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.model.reason import BehindHead, Reason, WaitsForSpot
from bursar.model.tenants.policy import UsageUnit
from bursar.model.tenants.tenant import Queueing
from bursar.model.units import MILLI

_STRICT: Final = Queueing.STRICT

Turn = tuple[Backlog, JobRecord]
"""A backlog and its head: the next job to decide about."""


class Turns:
    """The turns of one cycle: by urgency level, then by fair share.

    The caller must answer each turn with ``start``, ``assume_start`` or ``hold`` before the next.

    ``blocked_queues`` maps queues in which nothing starts to the reasons: a budget is spent, or the queue is
    strict and its head is held. Iteration ends after the backlog ``last``.
    """

    def __init__(
        self,
        draft: Draft,
        levels: Iterable[list[Backlog]],
        blocked_queues: dict[str, tuple[Reason, ...]],
        last: Backlog | None = None,
    ) -> None:
        self._draft = draft
        self._levels = levels
        self._blocked_queues = blocked_queues
        self._last = last
        self._is_over = False
        self._order: KindOrder
        self._turn: Turn

    def __iter__(self) -> Iterator[Turn]:
        draft, blocked_queues, last = self._draft, self._blocked_queues, self._last
        for level in self._levels:
            order = self._order = order_for(draft, level)
            while (backlog := order.next()) is not None:
                head = backlog.head()
                assert head is not None
                queue = backlog.kind.queue
                if queue not in blocked_queues:
                    turn = self._turn = (backlog, head)
                    yield turn
                    if self._is_over:
                        return
                    continue
                draft.hold(backlog, head, blocked_queues[queue])
                order.drop()
                if backlog is last:
                    return

    def start(self) -> None:
        """The head has started; its backlog continues with the next job."""
        backlog, head = self._turn
        self._draft.take(backlog, head)
        self._order.started()

    def assume_start(self) -> None:
        """Count the head as started on the pool it would try first, without placing it."""
        backlog = self._turn[0]
        self._draft.add_weight(backlog.kind.queue, first_pool_weight(self._draft, backlog))
        self.start()

    def hold(self, reasons: tuple[Reason, ...]) -> None:
        """Hold the backlog, because its head cannot start; a strict queue is then blocked too."""
        backlog, head = self._turn
        draft, queue = self._draft, backlog.kind.queue
        draft.hold(backlog, head, reasons)
        self._order.drop()
        self._is_over = backlog is self._last
        if draft.state.tenants[queue].queueing is _STRICT and not is_deferred(reasons):
            self._blocked_queues[queue] = (BehindHead(queue=queue, head=head.id),)


def is_deferred(reasons: tuple[Reason, ...]) -> bool:
    """Whether a job waits for a lower price; such a job does not block a strict queue."""
    return isinstance(reasons[0], WaitsForSpot)


def first_pool_weight(draft: Draft, backlog: Backlog) -> int:
    """The fair-share weight of a job on the pool it would try first."""
    plan = backlog.plan
    if not plan.fits:
        return 0
    fit = plan.fits[0]
    if draft.state.policies.order.usage_unit is UsageUnit.DOLLARS:
        return fit.hourly_micro_usd
    model = fit.pool.spec.gpu_model
    speed_milli = model.relative_speed_milli if model is not None else 0
    return plan.gpu_milli * speed_milli // MILLI
