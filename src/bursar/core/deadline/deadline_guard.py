"""Whether the deadline can still be met whatever happens to spot."""

from __future__ import annotations

from bursar.core.deadline.inputs import ON_DEMAND, WAIT, DeadlineProgress, DeadlineTerms, Location


def remaining_after(terms: DeadlineTerms, standing: DeadlineProgress, place: Location) -> int:
    """The work that is left when this tick was spent there."""
    if place == WAIT:
        return standing.remaining_ms
    pending_ms = standing.pending_ms if place == standing.place else terms.change_over_ms
    return standing.remaining_ms - max(0, terms.tick_ms - pending_ms)


def can_wait_one_tick(terms: DeadlineTerms, standing: DeadlineProgress, place: Location) -> bool:
    """Whether on-demand capacity, begun at the next tick, would still finish in time.

    The question is asked about the end of the tick, not about now: a rule that looks at now decides
    one tick late. On-demand capacity may always be used; a job that keeps to this rule on every other
    tick reaches its deadline (docs/decisions/0017-deadlines.md has the argument).
    """
    if place == ON_DEMAND:
        return True
    left_ms = remaining_after(terms, standing, place)
    if left_ms <= 0:
        return True
    if place != WAIT:
        left_ms += terms.rework_ms
    ticks_after = terms.ticks - standing.elapsed_ms // terms.tick_ms - 1
    return left_ms + terms.change_over_ms <= ticks_after * terms.tick_ms


def published_net_holds(terms: DeadlineTerms, standing: DeadlineProgress) -> bool:
    """The safety net of Uniform Progress: two change-overs, and one tick of slack always."""
    tick_ms = terms.tick_ms
    left = (terms.deadline_ms - standing.elapsed_ms) // tick_ms
    needed = -(-(standing.remaining_ms + 2 * terms.change_over_ms) // tick_ms)
    return left >= needed + 1
