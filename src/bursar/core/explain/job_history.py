"""What befell a job, from the events of its log: enough to say why it is where it is."""

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

TOLD = 5
"""So many of the last are told; all of them are in the log."""


def job_history(events: Iterable[ev.LoggedEvent]) -> tuple[PastEvent, ...]:
    """The last things that stopped a job, the oldest first. Its user's own cancelling is none of them."""
    found = [told for event in events if (told := _told(event)) is not None]
    return tuple(found[-TOLD:])


def _told(event: ev.LoggedEvent) -> PastEvent | None:
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
