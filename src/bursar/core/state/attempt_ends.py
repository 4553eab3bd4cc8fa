"""Why an attempt ended without success: its own failure, or a stop from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.core.state.job_record import JobRecord
from bursar.model.event import NoticeKind, PreemptionCause, SpotNotice
from bursar.model.jobs.job import JobState

MOST_UNPROMPTED = 3
"""How often in a row a job may request a restart without a newer checkpoint."""

_TERMINATE = NoticeKind.TERMINATE


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an unsuccessful attempt ended."""

    asks_again: bool
    """It exited with the code that requests a restart."""
    was_killed: bool
    """It was ended by a signal."""
    has_saved: bool = False
    """It saved a newer checkpoint that its record does not contain yet."""
    was_warned: bool = False
    """It acknowledged a stop that its record does not contain yet."""


def is_newer(record: JobRecord, step: int | None) -> bool:
    """Whether a checkpoint shows progress since the last one."""
    return step is None or record.saved_step is None or step > record.saved_step


def note_step(record: JobRecord, step: int | None) -> None:
    """Record a saved checkpoint."""
    if is_newer(record, step):
        record.unprompted = 0
    if step is not None:
        record.saved_step = max(step, record.saved_step or 0)


def count_preemption(record: JobRecord, cause: PreemptionCause) -> None:
    """Count a preemption; only our own orders count towards the limit, moves do not."""
    if cause is PreemptionCause.ORDER and not record.moving:
        record.preemptions += 1
    elif cause is PreemptionCause.UNPROMPTED:
        record.unprompted += 1


def preemption_cause(
    record: JobRecord, notices: Mapping[str, SpotNotice], end: AttemptEnd
) -> PreemptionCause | None:
    """What stopped an unsuccessful attempt; None when it failed by itself."""
    nodes = {task.node for task in record.placement.all_tasks} if record.placement else set()
    is_reclaimed = any(notices[node].kind is _TERMINATE for node in nodes & notices.keys())
    if record.stop_requested or record.state is JobState.CANCELLING:
        return PreemptionCause.NOTICE if is_reclaimed else PreemptionCause.ORDER
    if record.noticed or end.was_warned or (is_reclaimed and (end.asks_again or end.was_killed)):
        return PreemptionCause.NOTICE
    if end.asks_again and (end.has_saved or record.unprompted < MOST_UNPROMPTED):
        return PreemptionCause.UNPROMPTED
    return None
