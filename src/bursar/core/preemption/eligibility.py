"""Whom a queue may preempt: the policy it declares, and whether one job satisfies it."""

from __future__ import annotations

from typing import Protocol

from bursar.model.tenants.policy import Reclaim, WithinQueue


class Ranked(Protocol):
    """What legality looks at in a job."""

    @property
    def priority(self) -> int: ...

    @property
    def queued_at_ms(self) -> int: ...


def may_preempt(rule: WithinQueue | Reclaim, preemptor: Ranked, candidate: Ranked) -> bool:
    """Whether a rule lets one job preempt another; equal age is not newer: nothing ping-pongs.

    Who is later in the order is for the caller to say, who knows the order: only such candidates may
    be offered under ``LATER_IN_ORDER``.
    """
    match rule:
        case WithinQueue.LOWER_PRIORITY | Reclaim.LOWER_PRIORITY:
            return preemptor.priority > candidate.priority
        case WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY:
            if preemptor.priority == candidate.priority:
                return preemptor.queued_at_ms < candidate.queued_at_ms
            return preemptor.priority > candidate.priority
        case WithinQueue.LATER_IN_ORDER:
            return preemptor.priority >= candidate.priority
        case Reclaim.ANY:
            return True
    return False
