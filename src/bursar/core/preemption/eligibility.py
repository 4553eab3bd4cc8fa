"""Whether a policy rule lets one job preempt another."""

from __future__ import annotations

from typing import Protocol

from bursar.model.tenants.policy import Reclaim, WithinQueue


class Ranked(Protocol):
    """The attributes of a job that decide eligibility."""

    @property
    def priority(self) -> int: ...

    @property
    def queued_at_ms(self) -> int: ...


def may_preempt(rule: WithinQueue | Reclaim, preemptor: Ranked, candidate: Ranked) -> bool:
    """Whether a rule lets one job preempt another; equal age is not newer, which prevents loops.

    Under ``LATER_IN_ORDER`` the caller must pass only candidates that are later in its order.
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
