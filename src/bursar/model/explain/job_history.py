"""Earlier preemptions, stops, limits and failures of a job, read from its events, as values and text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.model import event as ev
from bursar.model.decision import PreemptionReason, StopReason
from bursar.model.units import SECOND_MS, write_duration, write_usd

MOST_EVENTS = 5
"""How many events are returned; the log has all of them."""

PREEMPTION_REASON_TEXT: Mapping[str, str] = {
    PreemptionReason.IN_QUEUE.value: "it is ahead in the same queue",
    PreemptionReason.RECLAIM.value: "its team reclaimed borrowed quota",
    PreemptionReason.RECLAIM_WHILE_BORROWING.value: "its priority is higher",
    PreemptionReason.FAIR_SHARE.value: "its team is further below its fair share",
}
"""Why the preempting job may take the GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPreemption:
    """An attempt was preempted for another job."""

    at_ms: int
    attempt: int
    on_behalf_of: str
    queue: str
    why: str
    lost_micro_usd: int

    def __str__(self) -> str:
        reason = PREEMPTION_REASON_TEXT.get(self.why, self.why)
        job = f"{self.on_behalf_of} of {self.queue}" if self.queue else self.on_behalf_of
        return (
            f"attempt {self.attempt} was preempted for {job}: {reason}; "
            f"{write_usd(self.lost_micro_usd)} of unsaved work was lost"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStop:
    """An attempt was stopped for a reason other than preemption."""

    at_ms: int
    attempt: int
    why: str
    lost_micro_usd: int

    def __str__(self) -> str:
        lost = f"; {write_usd(self.lost_micro_usd)} of work was lost" if self.lost_micro_usd else ""
        return f"attempt {self.attempt} was stopped ({self.why}){lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastLimit:
    """An attempt reached the job's run time limit or cost limit."""

    at_ms: int
    attempt: int
    why: str
    charged_micro_usd: int

    def __str__(self) -> str:
        if self.why == StopReason.COST_LIMIT.value:
            charged = write_usd(self.charged_micro_usd)
            return f"attempt {self.attempt} reached the job's cost ceiling (max_cost): charged {charged}"
        return f"attempt {self.attempt} reached the job's maximum run time (max_hours)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFailure:
    """The processes of an attempt failed."""

    at_ms: int
    attempt: int
    exit_code: int | None
    exit_signal: int | None
    exit_detail: str

    def __str__(self) -> str:
        how = "with an unknown exit status"
        if self.exit_signal is not None:
            how = f"by signal {self.exit_signal}"
        elif self.exit_code is not None:
            how = f"with exit code {self.exit_code}"
        detail = f" ({self.exit_detail})" if self.exit_detail else ""
        return f"attempt {self.attempt} failed {how}{detail}"


PastEvent = PastPreemption | PastStop | PastLimit | PastFailure


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


def history_line(event: PastEvent, now_ms: int) -> str:
    """The event as text, with how long ago it was."""
    ago_ms = max(0, now_ms - event.at_ms) // SECOND_MS * SECOND_MS
    return f"{write_duration(ago_ms)} ago {event}"
