"""Why not? A reason is a value with numbers; its sentence is written once, here."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.calendar import write_time
from bursar.model.tenants.tenant import CPU, GPU
from bursar.model.units import GIB_MIB, MILLI, write_duration, write_gpus, write_usd


def write_amount(resource: str, amount: int) -> str:
    """An amount of a resource in the unit people use for it."""
    if resource == GPU:
        return write_gpus(amount)
    if resource == CPU:
        return f"{amount / MILLI:g} CPUs"
    return f"{amount / GIB_MIB:g} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCapacity:
    """Some pool would do, but nothing there is free enough."""

    pool: str
    tasks_wanted: int
    tasks_that_fit: int
    gpus_wanted_per_task_milli: int
    gpus_free_milli: int
    gpus_free_on_best_node: int
    expected_at_ms: int | None = None

    def __str__(self) -> str:
        wanted = write_gpus(self.gpus_wanted_per_task_milli)
        tasks = "1 task" if self.tasks_wanted == 1 else f"{self.tasks_wanted} tasks at once"
        return (
            f"{self.pool}: needs room for {tasks} with {wanted} each, {self.tasks_that_fit} fit now; "
            f"{write_gpus(self.gpus_free_milli)} free in the pool, "
            f"{self.gpus_free_on_best_node} on the emptiest node"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverQuota:
    """The queue may not hold that much of the flavor now."""

    queue: str
    flavor: str
    resource: str
    wanted: int
    available: int
    used: int
    limited_by: str
    expected_at_ms: int | None = None
    budget_level: int = 0
    """So many percent of its budget ``limited_by`` has spent, and may therefore not borrow; 0: it may."""

    def __str__(self) -> str:
        budget = f", which has spent {self.budget_level} % of its budget and may not borrow"
        return (
            f"{self.flavor}: wants {write_amount(self.resource, self.wanted)}, quota leaves "
            f"{write_amount(self.resource, max(0, self.available))} to {self.queue} "
            f"(it holds {write_amount(self.resource, self.used)}; limited at {self.limited_by}"
            f"{budget if self.budget_level else ''})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """No pool could run this even when empty."""

    problem: str

    def __str__(self) -> str:
        return f"cannot run on this fleet: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldDelay:
    """It fits now, but would push back the planned start of a job that stands before it."""

    job_id: str
    planned_start_ms: int
    wait_ms: int
    run_ms: int

    def __str__(self) -> str:
        return (
            f"would delay {self.job_id}, planned to start in {write_duration(self.wait_ms)}; "
            f"this one may run {write_duration(self.run_ms)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindHead:
    """Its queue is strict: nothing passes a blocked head."""

    queue: str
    head: str

    def __str__(self) -> str:
        return f"queue {self.queue} is strict and {self.head} at its head cannot start yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForVictims:
    """Its place is kept; those who were told to leave it have not all left."""

    victims: tuple[str, ...]

    def __str__(self) -> str:
        return f"place kept; waiting for {len(self.victims)} preempted to stop: {', '.join(self.victims[:3])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLost:
    """Its victims have left, but it no longer fits where its place was kept."""

    pool: str

    def __str__(self) -> str:
        return f"{self.pool}: the place kept for it will not do any more; it goes back in line"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForJobs:
    """It depends on jobs that have not succeeded yet."""

    jobs: tuple[str, ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.failed:
            lost = ", ".join(self.failed[:3])
            return f"depends on {lost}, which did not succeed; cancel this job or resubmit both"
        return f"depends on {', '.join(self.jobs[:3])}, not succeeded yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """The tenant, or one above it, has spent so much of its budget that nothing may start."""

    tenant: str
    spent_micro_usd: int
    amount_micro_usd: int
    level: int
    period_ends_ms: int
    queues: tuple[str, ...] = ()
    """Whose spending it is: who does not see all of them is not told how much."""
    is_hidden: bool = False

    def __str__(self) -> str:
        spent, amount = write_usd(self.spent_micro_usd), write_usd(self.amount_micro_usd)
        told = f"{self.tenant} has spent {spent} of its budget of {amount}"
        if self.is_hidden:
            told = f"{self.tenant}, above your own, has spent {self.level} % of its budget"
        return (
            f"{told}; from {self.level} % on nothing starts, "
            f"until a new period begins at {write_time(self.period_ends_ms)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForSpot:
    """Its deadline leaves time to wait for spot capacity, which costs less than what there is."""

    pools: tuple[str, ...]
    spot_micro_usd_per_hour: int
    non_spot_micro_usd_per_hour: int
    left_ms: int
    deadline_ms: int
    wait_ms: int

    def __str__(self) -> str:
        return (
            f"waits for spot in {', '.join(self.pools[:3])} at {write_usd(self.spot_micro_usd_per_hour)} "
            f"an hour instead of {write_usd(self.non_spot_micro_usd_per_hour)}: "
            f"{write_duration(self.left_ms)} of work are left, and it takes other capacity in "
            f"{write_duration(self.wait_ms)} at the latest, in time for its deadline"
        )


Reason = (
    NoCapacity
    | OverQuota
    | NeverFits
    | WouldDelay
    | BehindHead
    | WaitsForVictims
    | ClaimLost
    | WaitsForJobs
    | WaitsForSpot
    | OverBudget
)
