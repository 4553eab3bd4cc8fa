"""Jobs alike in everything the scheduler looks at. A cycle judges kinds, not jobs."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.jobs.job import CheckpointPolicy, Constraints, TaskGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """What a job needs, wherever it came from. ``run_ms`` is its run time rounded up to the grid.

    ``own`` is the id of a job that is steered by its deadline: what it may use depends on its progress, so
    no other job is of its kind.
    """

    groups: tuple[TaskGroup, ...]
    constraints: Constraints
    checkpoint: CheckpointPolicy
    preemptible: bool
    run_ms: int | None
    own: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A shape waiting in a queue with a priority."""

    queue: str
    priority: int
    shape: JobShape
