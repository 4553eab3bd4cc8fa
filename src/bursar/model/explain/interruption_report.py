"""A job's interruptions in numbers, and what would help. Found by ``core/explain/interruption_report.py``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from bursar.model.jobs.job import OVER, JobState
from bursar.model.units import write_duration, write_usd


class Cause(StrEnum):
    """What interrupted an attempt."""

    CAPACITY = "capacity"
    """Its node was taken away or lost."""
    PRIORITY = "priority"
    """Another job of its queue goes first."""
    QUOTA = "quota"
    """Another team took back what was borrowed, or has had less of its share."""
    PRICE = "price"
    """It was moved: to cost less, or to meet its deadline."""
    BUDGET = "budget"
    ITSELF = "itself"
    """It asked to be run again."""


CAUSE_WORDS = {
    Cause.CAPACITY: "its node was taken away or lost",
    Cause.PRIORITY: "another job of its queue goes first",
    Cause.QUOTA: "another team took back what is its own",
    Cause.PRICE: "it was moved, to cost less or to meet its deadline",
    Cause.BUDGET: "its team's budget was spent",
    Cause.ITSELF: "it asked to be run again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One of them. ``lost_ms`` is work that was not saved."""

    at_ms: int
    attempt: int
    cause: Cause
    pool: str
    ran_ms: int
    lost_ms: int
    lost_micro_usd: int
    recovery_ms: int | None
    """From the start of the next attempt until it was really back; None while it is not, or was not told."""
    waited_ms: int | None
    """Until the next attempt had a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionReport:
    """All of them, and what they come to. Times that were never seen are None."""

    job_id: str
    interruptions: tuple[Interruption, ...]
    mean_run_ms: int | None
    """Mean run time between a start and an interruption."""
    saves: int
    saves_every_ms: int | None
    save_ms: int | None
    mean_recovery_ms: int | None
    waited_ms: int
    lost_ms: int
    lost_micro_usd: int
    spent_micro_usd: int
    advised_every_ms: int | None
    advice: tuple[str, ...]
    state: JobState | None = None
    """Where the job is now; None when only its log is at hand."""
    attempts: int = 0

    def count(self, cause: Cause) -> int:
        return sum(one.cause is cause for one in self.interruptions)

    def lines(self) -> Iterator[str]:
        """What to tell whoever asks."""
        if not self.interruptions:
            yield from self._undisturbed()
            return
        total = len(self.interruptions)
        yield f"{self.job_id} was interrupted {_times(total)}:"
        for cause in Cause:
            if count := self.count(cause):
                yield f"  {count} of {total}: {CAUSE_WORDS[cause]}"
        if self.mean_run_ms is not None:
            yield f"it ran {write_duration(self.mean_run_ms)} on average before an interruption"
        if self.saves_every_ms is not None:
            took = f", {write_duration(self.save_ms)} each" if self.save_ms is not None else ""
            yield f"it saved every {write_duration(self.saves_every_ms)}{took}"
        elif not self.saves:
            yield "it never saved"
        if self.mean_recovery_ms is not None:
            yield f"it took {write_duration(self.mean_recovery_ms)} on average to be back after a start"
        if self.waited_ms:
            yield f"it waited {write_duration(self.waited_ms)} in all for a new place"
        yield (
            f"{write_duration(self.lost_ms)} of work was lost, {write_usd(self.lost_micro_usd)} of the "
            f"{write_usd(self.spent_micro_usd)} it has cost in interrupted attempts"
        )
        for one in self.advice:
            yield f"what would help: {one}"

    def _undisturbed(self) -> Iterator[str]:
        """Nothing interrupted it: whether there was anything to interrupt, and what one would cost."""
        if self.state is None:
            yield f"{self.job_id} was never interrupted."
        elif not self.attempts and self.state in OVER:
            yield f"{self.job_id} was never interrupted: it never ran, and is {self.state}."
        elif not self.attempts:
            yield (
                f"{self.job_id} has not run yet, so nothing has interrupted it; "
                f"'bursar why {self.job_id}' says what it waits for."
            )
        elif self.state in OVER:
            yield (
                f"{self.job_id} was never interrupted: it {UNDISTURBED_END[self.state]} in attempt "
                f"{self.attempts}; 'bursar status {self.job_id}' says how it ended."
            )
        else:
            yield f"{self.job_id} was never interrupted; it is {self.state}, in attempt {self.attempts}."
            if self.saves:
                yield f"it has saved {_times(self.saves)}: only what came since would be lost"
            else:
                yield "it has saved nothing: an interruption would cost all it has done (docs/checkpoints.md)"


UNDISTURBED_END = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
