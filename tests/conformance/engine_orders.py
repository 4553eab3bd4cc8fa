"""Builds start orders for any engine."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import JobSpec, TaskGroup
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef, StartOrder

QUEUE = "research"


def ref(job_id: str, attempt: int = 1) -> AttemptRef:
    return AttemptRef(job_id=job_id, attempt=attempt)


def tasks_on(*nodes: str) -> tuple[Task, ...]:
    """One task on each node."""
    return tuple(Task(group="main", node=node, count=1) for node in nodes)


def order(
    job_id: str,
    recipe: RunSpec | str,
    *,
    tasks: Sequence[Task] = (),
    attempt: int = 1,
    anchors: Sequence[Task] = (),
) -> StartOrder:
    """A text is a run script; the default is one task on ``node-0``. ``anchors`` are in another pool."""
    placed = tuple(tasks) or tasks_on("node-0")
    anchor_placement = Placement(
        pool="steady", flavor="cpu/on-demand", tasks=tuple(anchors), micro_usd_per_hour=0
    )
    placement = Placement(
        pool="pool",
        flavor="cpu/owned",
        tasks=placed,
        micro_usd_per_hour=0,
        anchors=anchor_placement if anchors else None,
    )
    placed += tuple(anchors)
    groups = tuple(
        TaskGroup(name=name, count=sum(task.count for task in placed if task.group == name))
        for name in dict.fromkeys(task.group for task in placed)
    )
    return StartOrder(
        ref=ref(job_id, attempt),
        placement=placement,
        recipe=RunSpec(run=recipe) if isinstance(recipe, str) else recipe,
        spec=JobSpec(name=job_id, queue=QUEUE, groups=groups),
    )
