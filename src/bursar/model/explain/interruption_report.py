"""A job's interruptions, their cost, and advice; computed by ``core/explain/interruption_report.py``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from bursar.model.jobs.job import OVER, JobState
from bursar.model.units import write_duration, write_usd


class Cause(StrEnum):
    """What interrupted an attempt."""

    CAPACITY = "capacity"
    PRIORITY = "priority"
    QUOTA = "quota"
    PRICE = "price"
    BUDGET = "budget"
    ITSELF = "itself"


CAUSE_TEXT = {
    Cause.CAPACITY: "its node was terminated or lost",
    Cause.PRIORITY: "preempted by another job of its queue",
    Cause.QUOTA: "preempted by another team within its quota or fair share",
    Cause.PRICE: "moved to cost less or to meet its deadline",
    Cause.BUDGET: "its team's budget was spent",
    Cause.ITSELF: "it exited with a request to be run again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One interruption. ``lost_ms`` is unsaved work."""

    at_ms: int
    attempt: int
    cause: Cause
    pool: str
    ran_ms: int
    lost_ms: int
    lost_micro_usd: int
    recovery_ms: int | None
    """From the start of the next attempt to its first new work; None if unknown."""
    waited_ms: int | None
    """Until the next attempt was placed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionReport:
    """All interruptions of a job with their totals. Times never measured are None."""

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
    """The job's current state; None if only its log is known."""
    attempts: int = 0

    def count(self, cause: Cause) -> int:
        return sum(one.cause is cause for one in self.interruptions)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        if not self.interruptions:
            yield from self._uninterrupted_lines()
            return
        total = len(self.interruptions)
        yield f"{self.job_id} was interrupted {_times(total)}:"
        for cause in Cause:
            if count := self.count(cause):
                yield f"  {count} of {total}: {CAUSE_TEXT[cause]}"
        if self.mean_run_ms is not None:
            yield f"it ran {write_duration(self.mean_run_ms)} on average before an interruption"
        if self.saves_every_ms is not None:
            took = f", {write_duration(self.save_ms)} each" if self.save_ms is not None else ""
            yield f"it saved every {write_duration(self.saves_every_ms)}{took}"
        elif not self.saves:
            yield "it never saved"
        if self.mean_recovery_ms is not None:
            yield f"it needed {write_duration(self.mean_recovery_ms)} on average to recover after a start"
        if self.waited_ms:
            yield f"it waited {write_duration(self.waited_ms)} in total to be placed again"
        yield (
            f"{write_duration(self.lost_ms)} of work was lost, {write_usd(self.lost_micro_usd)} of the "
            f"{write_usd(self.spent_micro_usd)} it has cost in interrupted attempts"
        )
        for one in self.advice:
            yield f"advice: {one}"

    def _uninterrupted_lines(self) -> Iterator[str]:
        """Whether the job ran at all, and what an interruption would cost it."""
        if self.state is None:
            yield f"{self.job_id} was never interrupted."
        elif not self.attempts and self.state in OVER:
            yield f"{self.job_id} was never interrupted: it {ENDED_TEXT[self.state]} without having run."
        elif not self.attempts:
            yield (
                f"{self.job_id} has not run yet, so nothing has interrupted it; "
                f"run 'bursar why {self.job_id}' to see why it waits."
            )
        elif self.state in OVER:
            yield (
                f"{self.job_id} was never interrupted: it {ENDED_TEXT[self.state]} in attempt "
                f"{self.attempts}; run 'bursar status {self.job_id}' for details."
            )
        else:
            yield f"{self.job_id} was never interrupted; it is {self.state}, in attempt {self.attempts}."
            if self.saves:
                yield f"it has saved {_times(self.saves)}: only work since the last save would be lost"
            else:
                yield "it has saved nothing: an interruption would lose all its work (docs/checkpoints.md)"


ENDED_TEXT = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
