"""Reads a job's last preemptions, stops, limits and failures from its events."""

from __future__ import annotations

from collections.abc import Iterable

from bursar.model import event as ev
from bursar.model.explain.job_history import (
    PastEvent,
    PastFailure,
    PastLimit,
    PastPreemption,
    PastStop,
)

MOST_EVENTS = 5
"""How many events are returned; the log has all of them."""


def job_history(events: Iterable[ev.LoggedEvent]) -> tuple[PastEvent, ...]:
    """The last events that stopped a job, oldest first, without cancellations by its user."""
    past = [one for event in events if (one := _past_event(event)) is not None]
    return tuple(past[-MOST_EVENTS:])


def _past_event(event: ev.LoggedEvent) -> PastEvent | None:
    match event:
        case ev.AttemptStopping(on_behalf_of="", why=""):
            return None
        case ev.AttemptStopping(on_behalf_of=""):
            return PastStop(
                at_ms=event.at_ms,
                attempt=event.attempt,
                why=event.why,
                lost_micro_usd=event.lost_micro_usd,
            )
        case ev.AttemptStopping():
            return PastPreemption(
                at_ms=event.at_ms,
                attempt=event.attempt,
                on_behalf_of=event.on_behalf_of,
                queue="",
                why=event.why,
                lost_micro_usd=event.lost_micro_usd,
            )
        case ev.AttemptExpired():
            return PastLimit(
                at_ms=event.at_ms,
                attempt=event.attempt,
                why=event.why,
                charged_micro_usd=event.charged_micro_usd,
            )
        case ev.AttemptFailed(exit=how):
            return PastFailure(
                at_ms=event.at_ms,
                attempt=event.attempt,
                exit_code=how.code if how is not None else None,
                exit_signal=how.signal if how is not None else None,
                exit_detail=how.detail if how is not None else "",
            )
        case _:
            return None
