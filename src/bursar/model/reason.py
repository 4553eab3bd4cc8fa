"""Reasons why a job does not start, as values with numbers, and their texts."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.calendar import write_time
from bursar.model.tenants.tenant import CPU, GPU
from bursar.model.units import GIB_MIB, MILLI, counted, write_duration, write_gpus, write_usd


def write_amount(resource: str, amount: int) -> str:
    """Formats an amount of a resource in its usual unit."""
    if resource == GPU:
        return write_gpus(amount)
    if resource == CPU:
        return f"{amount / MILLI:g} CPUs"
    return f"{amount / GIB_MIB:g} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCapacity:
    """A pool could run the job but has too little free capacity."""

    pool: str
    tasks_wanted: int
    tasks_that_fit: int
    gpus_wanted_per_task_milli: int
    gpus_free_milli: int
    gpus_free_on_best_node: int
    expected_at_ms: int | None = None

    def __str__(self) -> str:
        gpus = write_gpus(self.gpus_wanted_per_task_milli)
        tasks = f"1 task with {gpus}"
        if self.tasks_wanted != 1:
            tasks = f"{self.tasks_wanted:,} tasks at once with {gpus} each"
        verb = "fits" if self.tasks_that_fit == 1 else "fit"
        return (
            f"{self.pool}: needs capacity for {tasks}, {self.tasks_that_fit:,} {verb} now; "
            f"{write_gpus(self.gpus_free_milli)} free in the pool, "
            f"at most {self.gpus_free_on_best_node} on one node"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverQuota:
    """The queue has too little quota left for the flavor."""

    queue: str
    flavor: str
    resource: str
    wanted: int
    available: int
    used: int
    limited_by: str
    expected_at_ms: int | None = None
    budget_level: int = 0
    """Percent of its budget that ``limited_by`` has spent and that stops borrowing; 0: it may borrow."""

    def __str__(self) -> str:
        budget = f", which has spent {self.budget_level} % of its budget and may not borrow"
        return (
            f"{self.flavor}: needs {write_amount(self.resource, self.wanted)}, "
            f"{self.queue} has {write_amount(self.resource, max(0, self.available))} of quota left "
            f"(it holds {write_amount(self.resource, self.used)}; limited by {self.limited_by}"
            f"{budget if self.budget_level else ''})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """No pool could run the job, even when empty."""

    problem: str

    def __str__(self) -> str:
        return f"cannot run on this fleet: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldDelay:
    """The job fits now but would delay the reservation of a job ahead of it."""

    job_id: str
    planned_start_ms: int
    wait_ms: int
    run_ms: int

    def __str__(self) -> str:
        return (
            f"would delay {self.job_id}, planned to start in {write_duration(self.wait_ms)}; "
            f"this job may run for {write_duration(self.run_ms)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindHead:
    """The queue is strict (first in, first out) and its first job is blocked."""

    queue: str
    head: str

    def __str__(self) -> str:
        return f"queue {self.queue} is strict, and its first job {self.head} cannot start yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForVictims:
    """Nodes are reserved for the job; preempted jobs still run on them."""

    victims: tuple[str, ...]

    def __str__(self) -> str:
        jobs = counted(len(self.victims), "preempted job")
        return f"nodes reserved; waiting for {jobs} to stop: {', '.join(self.victims[:3])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLost:
    """The preempted jobs have stopped, but the job no longer fits on the reserved nodes."""

    pool: str

    def __str__(self) -> str:
        return (
            f"{self.pool}: the job no longer fits on the nodes reserved for it and is queued again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForJobs:
    """The job depends on jobs that have not succeeded yet."""

    jobs: tuple[str, ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.failed:
            failed = ", ".join(self.failed[:3])
            return f"depends on {failed}, which did not succeed; cancel this job or resubmit both"
        return f"depends on {', '.join(self.jobs[:3])}, not succeeded yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """The budget of the tenant, or of one above it, is spent: no job may start."""

    tenant: str
    spent_micro_usd: int
    amount_micro_usd: int
    level: int
    period_ends_ms: int
    queues: tuple[str, ...] = ()
    """Queues whose spending this is; a caller who may not see all of them gets no amounts."""
    is_hidden: bool = False

    def __str__(self) -> str:
        spent, amount = write_usd(self.spent_micro_usd), write_usd(self.amount_micro_usd)
        spending = f"{self.tenant} has spent {spent} of its budget of {amount}"
        if self.is_hidden:
            spending = f"the parent tenant {self.tenant} has spent {self.level} % of its budget"
        return (
            f"{spending}; from {self.level} % on no job starts; "
            f"the next period begins at {write_time(self.period_ends_ms)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitsForSpot:
    """The deadline leaves time to wait for spot capacity, which is cheaper."""

    pools: tuple[str, ...]
    spot_micro_usd_per_hour: int
    non_spot_micro_usd_per_hour: int
    left_ms: int
    deadline_ms: int
    wait_ms: int

    def __str__(self) -> str:
        return (
            f"waits for spot in {', '.join(self.pools[:3])} at {write_usd(self.spot_micro_usd_per_hour)} "
            f"an hour instead of {write_usd(self.non_spot_micro_usd_per_hour)}; "
            f"{write_duration(self.left_ms)} of work left; to meet its deadline it starts on other "
            f"capacity in {write_duration(self.wait_ms)} at the latest"
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
