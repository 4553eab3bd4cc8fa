"""What can be wrong with an order as such, wherever it puts a job."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.decision import StopReason
from bursar.model.job import JobState
from bursar.model.units import write_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownJob:
    job_id: str
    order: str

    def __str__(self) -> str:
        return f"{self.order} for {self.job_id}, which is over or never was"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotWaiting:
    job_id: str
    order: str
    state: JobState

    def __str__(self) -> str:
        return f"{self.order} for {self.job_id}, which does not wait: it is {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLive:
    job_id: str
    order: str
    state: JobState

    def __str__(self) -> str:
        return f"{self.order} for {self.job_id}, which holds no room: it is {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongAttempt:
    job_id: str
    order: str
    stated: int
    expected: int

    def __str__(self) -> str:
        return f"{self.order} for attempt {self.stated} of {self.job_id}, expected {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTwice:
    """An attempt is told to stop that was told already, now or before."""

    job_id: str
    order: str

    def __str__(self) -> str:
        return f"{self.order} for {self.job_id}, which is told to stop already"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPreemptible:
    job_id: str

    def __str__(self) -> str:
        return f"{self.job_id} is preempted, but is not preemptible"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooSoon:
    job_id: str
    ran_ms: int
    minimum_run_ms: int

    def __str__(self) -> str:
        return (
            f"{self.job_id} is preempted after {write_duration(self.ran_ms)}; "
            f"it may run {write_duration(self.minimum_run_ms)} first"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpent:
    job_id: str
    preemptions: int
    budget: int

    def __str__(self) -> str:
        return (
            f"{self.job_id} is preempted once more after {self.preemptions} times; "
            f"the policy allows {self.budget}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingGained:
    """The job for which another is preempted keeps no place, or not the victim's."""

    job_id: str
    on_behalf_of: str

    def __str__(self) -> str:
        return (
            f"{self.job_id} is preempted for {self.on_behalf_of}, "
            f"for which no place is kept with it as a victim"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimStays:
    """A claim counts on someone leaving who was not told to."""

    job_id: str
    victim: str

    def __str__(self) -> str:
        return f"a place is kept for {self.job_id} until {self.victim} leaves, who is not told to"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoReasonToStop:
    job_id: str
    reason: StopReason
    state: JobState
    limit_at_ms: int | None

    def __str__(self) -> str:
        limit = (
            "it has no limit" if self.limit_at_ms is None else f"its limit is {self.limit_at_ms}"
        )
        return f"{self.job_id} is stopped as {self.reason}, but is {self.state} and {limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNotice:
    """An attempt is made to leave a node that nobody takes away, or on which it is not."""

    job_id: str
    node: str

    def __str__(self) -> str:
        return f"{self.job_id} is made to leave {self.node}, which is not taken away from under it"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceTooLong:
    """An attempt may go on for longer than its node is there."""

    job_id: str
    node: str
    grace_ms: int
    left_ms: int

    def __str__(self) -> str:
        return (
            f"{self.job_id} has {write_duration(self.grace_ms)} to leave {self.node}, "
            f"which is gone in {write_duration(max(0, self.left_ms))}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """Nobody tells an attempt that its node is taken away."""

    job_id: str
    node: str

    def __str__(self) -> str:
        return f"{self.job_id} is not told to leave {self.node}, which is taken away"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoClaim:
    job_id: str

    def __str__(self) -> str:
        return f"the place kept for {self.job_id} is released, but none is kept for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedAlready:
    job_id: str

    def __str__(self) -> str:
        return f"a second place is kept for {self.job_id} while it still has the first"


OrderFault = (
    UnknownJob
    | NotWaiting
    | NotLive
    | WrongAttempt
    | ToldTwice
    | NotPreemptible
    | TooSoon
    | BudgetSpent
    | NothingGained
    | VictimStays
    | NoReasonToStop
    | NoNotice
    | GraceTooLong
    | LeftBehind
    | NoClaim
    | ClaimedAlready
)
