"""What an engine's report means: at most one event, and none when it speaks of the past."""

from __future__ import annotations

from typing import assert_never

from bursar.core.lifecycle import LIVE
from bursar.core.line import JobRecord
from bursar.core.state import FleetState
from bursar.model import event as ev
from bursar.model.job import JobState
from bursar.model.report import (
    CheckpointReported,
    NodeBack,
    NodeGone,
    Progressed,
    Report,
    Resumed,
    TasksEnded,
    TasksStarted,
)


def event_for(report: Report, state: FleetState, now_ms: int) -> ev.Event | None:
    """The event that a report becomes. None: it is stale, or says what is known already."""
    match report:
        case TasksStarted() | TasksEnded() | CheckpointReported():
            record = _fenced(report.job_id, report.attempt, state)
            return None if record is None else _of_attempt(report, record, now_ms)
        case Resumed() | Progressed():
            return None
        case NodeGone(node=node):
            return ev.NodeLost(at_ms=now_ms, node=node) if node in state.pool_of_node else None
        case NodeBack(node=node):
            known = state.pool_of_node.get(node)
            if known is not None and not known.by_id[node].up:
                return ev.NodeRestored(at_ms=now_ms, node=node)
            return None
        case _:
            assert_never(report)


def _fenced(job_id: str, attempt: int, state: FleetState) -> JobRecord | None:
    """The attempt number is the fencing token: only the live attempt may change anything."""
    record = state.jobs.get(job_id)
    if record is None or record.attempt != attempt or record.state not in LIVE:
        return None
    return record


def _of_attempt(
    report: TasksStarted | TasksEnded | CheckpointReported, record: JobRecord, now_ms: int
) -> ev.Event | None:
    at_ms = _believable(report.at_ms, record, now_ms)
    job_id, attempt = record.id, record.attempt
    match report:
        case TasksStarted():
            if record.started_at_ms is not None:
                return None
            return ev.AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)
        case CheckpointReported():
            return ev.CheckpointSaved(at_ms=at_ms, job_id=job_id, attempt=attempt)
        case TasksEnded(exit=how):
            if how.code == 0:
                return ev.AttemptSucceeded(at_ms=at_ms, job_id=job_id, attempt=attempt)
            if record.told_to_stop:
                return ev.AttemptPreempted(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=how)
            if record.state is JobState.CANCELLING:
                return ev.AttemptPreempted(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=how)
            return ev.AttemptFailed(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=how)


def _believable(at_ms: int, record: JobRecord, now_ms: int) -> int:
    """Engines have clocks of their own: nothing happens before it was ordered, or after now."""
    return max(record.started_at_ms or record.assigned_at_ms, min(at_ms, now_ms))
