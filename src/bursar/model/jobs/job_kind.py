"""Job kinds: sets of jobs that the scheduler cannot tell apart; a cycle schedules kinds."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.jobs.job import CheckpointPolicy, Constraints, TaskGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """What a job needs. ``run_ms`` is its run time rounded up to the grid.

    ``own`` is the id of a deadline-managed job: its pools depend on its progress, so it is alone in its
    kind.
    """

    groups: tuple[TaskGroup, ...]
    constraints: Constraints
    checkpoint: CheckpointPolicy
    preemptible: bool
    run_ms: int | None
    own: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A shape, a queue and a priority (kube-scheduler: equivalence class)."""

    queue: str
    priority: int
    shape: JobShape
