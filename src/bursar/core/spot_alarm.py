"""When jobs that are steered by their deadlines are looked at again though nothing happened.

All of them together, at moments that are the same for all: every tick since the beginning of time. Between
two looks a job on spot may go on, or a waiting one wait, because the look before made sure that the next
comes in time. So nothing has to be remembered: whoever knows the last look knows the next.
"""

from __future__ import annotations

from bursar.core.alarms import NEVER_MS
from bursar.core.state import FleetState


def next_look_ms(state: FleetState, last_ms: int) -> int:
    """The first tick after the last look, while any deadline is still to come."""
    steered = state.book.steered
    if not steered:
        return NEVER_MS
    tick_ms = state.policies.spot.tick_ms
    next_ms = (last_ms // tick_ms + 1) * tick_ms
    return (
        next_ms if any(next_ms < (one.deadline_ms or 0) for one in steered.values()) else NEVER_MS
    )
