"""Why not? A reason is a value with numbers; its sentence is written once, here."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.tenant import CPU, GPU
from bursar.model.units import GIB_MIB, MILLI, write_duration, write_gpus


def write_amount(resource: str, amount: int) -> str:
    """An amount of a resource in the unit people use for it."""
    if resource == GPU:
        return write_gpus(amount)
    if resource == CPU:
        return f"{amount / MILLI:g} CPUs"
    return f"{amount / GIB_MIB:g} GiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
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

    def __str__(self) -> str:
        return (
            f"{self.flavor}: wants {write_amount(self.resource, self.wanted)}, quota leaves "
            f"{write_amount(self.resource, max(0, self.available))} to {self.queue} "
            f"(it holds {write_amount(self.resource, self.used)}; limited at {self.limited_by})"
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
class PlaceLost:
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


Reason = (
    NoRoom
    | OverQuota
    | NeverFits
    | WouldDelay
    | BehindHead
    | WaitsForVictims
    | PlaceLost
    | WaitsForJobs
)
