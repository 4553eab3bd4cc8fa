"""What befell a job before now, in values: who took its place, which limit it came to, how it failed.

Found in the log by ``core/explain/job_history.py``; the sentences are written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.model.decision import PreemptionReason, StopReason
from bursar.model.units import SECOND_MS, write_duration, write_usd

PREEMPTION_REASON_TEXT: Mapping[str, str] = {
    PreemptionReason.IN_QUEUE.value: "it goes first in the same queue",
    PreemptionReason.RECLAIM.value: "its team takes back what was borrowed",
    PreemptionReason.RECLAIM_WHILE_BORROWING.value: "its priority is higher",
    PreemptionReason.FAIR_SHARE.value: "its team has had less of its share",
}
"""By what right a job may take another's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPreemption:
    """An attempt was told to stop so that another job could run."""

    at_ms: int
    attempt: int
    on_behalf_of: str
    queue: str
    why: str
    lost_micro_usd: int

    def __str__(self) -> str:
        right = PREEMPTION_REASON_TEXT.get(self.why, self.why)
        whose = f"{self.on_behalf_of} of {self.queue}" if self.queue else self.on_behalf_of
        return (
            f"attempt {self.attempt} gave way to {whose}: {right}; "
            f"{write_usd(self.lost_micro_usd)} of work that was not saved was lost"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStop:
    """An attempt was told to stop for a reason that is no other job."""

    at_ms: int
    attempt: int
    why: str
    lost_micro_usd: int

    def __str__(self) -> str:
        lost = f"; {write_usd(self.lost_micro_usd)} of work was lost" if self.lost_micro_usd else ""
        return f"attempt {self.attempt} was told to stop ({self.why}){lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastLimit:
    """An attempt ran as long, or cost as much, as its job's user allows."""

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
        how = "without saying how"
        if self.exit_signal is not None:
            how = f"by signal {self.exit_signal}"
        elif self.exit_code is not None:
            how = f"with exit code {self.exit_code}"
        detail = f" ({self.exit_detail})" if self.exit_detail else ""
        return f"attempt {self.attempt} failed {how}{detail}"


PastEvent = PastPreemption | PastStop | PastLimit | PastFailure


def history_line(event: PastEvent, now_ms: int) -> str:
    """What happened, and how long ago."""
    ago_ms = max(0, now_ms - event.at_ms) // SECOND_MS * SECOND_MS
    return f"{write_duration(ago_ms)} ago {event}"
