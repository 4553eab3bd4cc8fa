"""Prints one line for each event that operators care about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bursar.background import BackgroundThread
from bursar.model.event import (
    AttemptAssigned,
    AttemptFailed,
    AttemptPreempted,
    AttemptResumed,
    AttemptStopping,
    AttemptSucceeded,
    FleetDeclared,
    JobCancelled,
    LoggedEvent,
    NodeAdded,
    NodeLost,
    SpotNotice,
)
from bursar.model.jobs.attempt import Exit

if TYPE_CHECKING:
    from bursar.control.control_plane import ControlPlane

LINES_AT_ONCE = 20
"""More lines at once are summed up."""


@contextmanager
def narrate(plane: ControlPlane, log: Callable[[str], None]) -> Iterator[None]:
    """Within the block, log events on a background thread."""
    subscription = plane.follow()

    def log_next() -> None:
        lines = [line for one in subscription.next(0.5) if (line := line_for(one.event))]
        for line in lines[:LINES_AT_ONCE]:
            log(line)
        if len(lines) > LINES_AT_ONCE:
            log(f"... and {len(lines) - LINES_AT_ONCE:,} more")

    thread = BackgroundThread("bursar-job-log", log_next)
    thread.start()
    try:
        yield
    finally:
        thread.close(timeout_seconds=2)
        subscription.close()


def line_for(event: LoggedEvent) -> str | None:
    """The line for an event; None for those of no interest to operators."""
    match event:
        case AttemptAssigned(job_id=job_id, attempt=attempt, placement=placement):
            nodes = sorted({task.node for task in placement.all_tasks})
            again = f" (attempt {attempt})" if attempt > 1 else ""
            return f"{job_id} starts on {', '.join(nodes[:4])}{again}"
        case AttemptSucceeded(job_id=job_id):
            return f"{job_id} succeeded"
        case AttemptFailed(job_id=job_id, exit=how):
            return f"{job_id} failed: {_how(how)}"
        case AttemptStopping(job_id=job_id, on_behalf_of=other) if other:
            return f"{job_id} is preempted for {other} ({event.why})"
        case AttemptPreempted(job_id=job_id):
            return f"{job_id} has stopped"
        case JobCancelled(job_id=job_id):
            return f"{job_id} cancelled"
        case SpotNotice(node=node, source=source, kind=kind, job_id=None):
            return f"{source} gives notice for node {node}: {kind}"
        case SpotNotice(job_id=job_id, source=source):
            return f"{job_id} received a stop signal from {source}, not from Bursar"
        case AttemptResumed(job_id=job_id, step=step) if step is not None:
            return f"{job_id} resumes from step {step:,}"
        case NodeLost(node=node):
            return f"node {node} is lost"
        case NodeAdded(node=node):
            return f"node {node.id} is added"
        case FleetDeclared(fleet=fleet, tenants=tenants):
            queues = sum(tenant.is_queue for tenant in tenants)
            return f"the fleet has {len(fleet.nodes):,} nodes, {queues:,} queues"
        case _:
            return None


def _how(how: Exit | None) -> str:
    if how is None:
        return "for an unknown reason"
    if how.detail:
        return how.detail
    return f"signal {how.signal}" if how.signal is not None else f"exit code {how.code}"
