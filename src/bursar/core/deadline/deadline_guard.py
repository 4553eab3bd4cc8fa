"""Checks whether the deadline can still be met if all spot capacity is lost."""

from __future__ import annotations

from bursar.core.deadline.inputs import ON_DEMAND, WAIT, DeadlineProgress, DeadlineTerms, Location


def remaining_after(terms: DeadlineTerms, progress: DeadlineProgress, location: Location) -> int:
    """The remaining work after one tick at a location."""
    if location == WAIT:
        return progress.remaining_ms
    pending_ms = progress.pending_ms if location == progress.location else terms.change_over_ms
    return progress.remaining_ms - max(0, terms.tick_ms - pending_ms)


def can_wait_one_tick(terms: DeadlineTerms, progress: DeadlineProgress, location: Location) -> bool:
    """Whether on-demand capacity, started at the next tick, would still finish in time.

    It checks the end of the tick, not its start: otherwise the decision comes one tick late. On-demand
    capacity is always allowed; a job that meets this condition on every other tick meets its deadline
    (proof in docs/decisions/0017-deadlines.md).
    """
    if location == ON_DEMAND:
        return True
    left_ms = remaining_after(terms, progress, location)
    if left_ms <= 0:
        return True
    if location != WAIT:
        left_ms += terms.rework_ms
    ticks_after = terms.ticks - progress.elapsed_ms // terms.tick_ms - 1
    return left_ms + terms.change_over_ms <= ticks_after * terms.tick_ms


def published_net_holds(terms: DeadlineTerms, progress: DeadlineProgress) -> bool:
    """The safety net of Uniform Progress: two change-overs and one tick of slack."""
    tick_ms = terms.tick_ms
    left = (terms.deadline_ms - progress.elapsed_ms) // tick_ms
    needed = -(-(progress.remaining_ms + 2 * terms.change_over_ms) // tick_ms)
    return left >= needed + 1
