"""Turns events into notification messages.

A message goes to everyone who may see the job's queue, so it never names another tenant's job.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from bursar.model.event import (
    AttemptAssigned,
    AttemptEnded,
    AttemptFailed,
    AttemptPreempted,
    AttemptResumed,
    AttemptStopping,
    AttemptSucceeded,
    BudgetLevelChanged,
    CheckpointSaved,
    NodeLost,
    PreemptionCause,
)
from bursar.model.jobs.job import JobState
from bursar.model.notification import Notification, NotificationKind
from bursar.model.units import write_duration, write_usd
from bursar.ports import JobRow, Recorded

Value = TypeVar("Value")
JobContent: TypeAlias = tuple[NotificationKind, JobRow, str, str]
"""Occasion, job, title and text of a message about a job."""
MAX_CACHED_JOBS = 10_000
"""Jobs in each cache of a builder; the oldest are evicted."""


class MessageBuilder:
    """Builds messages from events. Caches where jobs run and why they were asked to stop."""

    def __init__(self, job: Callable[[str], JobRow | None]) -> None:
        self._job = job
        self._stop_requests: OrderedDict[str, AttemptStopping] = OrderedDict()
        self._recovered_attempts: OrderedDict[str, int] = OrderedDict()
        self._nodes: OrderedDict[str, frozenset[str]] = OrderedDict()

    def add_running(self, running: Iterable[JobRow]) -> None:
        """Adds the nodes of jobs that started before the first event read."""
        for row in running:
            if row.placement is not None:
                _cache(
                    self._nodes, row.id, frozenset(task.node for task in row.placement.all_tasks)
                )

    def messages(self, recorded: Recorded) -> list[Notification]:
        """The messages for an event; most events have none."""
        match recorded.event:
            case AttemptAssigned() as event:
                nodes = frozenset(task.node for task in event.placement.all_tasks)
                _cache(self._nodes, event.job_id, nodes)
            case AttemptStopping() as event:
                _cache(self._stop_requests, event.job_id, event)
            case AttemptPreempted() as event:
                return _job_messages(self._preempted(event), recorded)
            case AttemptFailed() as event:
                return _job_messages(self._failed(event), recorded)
            case AttemptResumed(attempt=attempt) | CheckpointSaved(attempt=attempt) as event:
                if attempt > 1 and self._recovered_attempts.get(event.job_id) != attempt:
                    return _job_messages(self._recovered(event), recorded)
            case BudgetLevelChanged() as event if event.level:
                return [_budget(event, recorded.sequence)]
            case NodeLost(node=node):
                job_ids = [job_id for job_id, nodes in self._nodes.items() if node in nodes]
                # All rows first: if the store fails, the nodes of no job are forgotten.
                rows = {job_id: self._job(job_id) for job_id in job_ids}
                contents = [self._node_lost(job_id, row, node) for job_id, row in rows.items()]
                return [one for content in contents for one in _job_messages(content, recorded)]
            case AttemptSucceeded(job_id=job_id):
                self._nodes.pop(job_id, None)
            case _:
                pass
        return []

    def _preempted(self, event: AttemptPreempted) -> JobContent | None:
        row = self._job(event.job_id)
        request = self._stop_requests.pop(event.job_id, None)
        self._nodes.pop(event.job_id, None)
        if row is None or row.state is JobState.CANCELLED:
            return None
        if row.state is JobState.FAILED:
            return self._failed(event)
        reason = _stop_reason(event, request)
        lost_micro_usd = request.lost_micro_usd if request is not None else 0
        work = (
            f"{write_usd(lost_micro_usd)} of work was not saved."
            if lost_micro_usd
            else "No work was lost."
        )
        return (
            NotificationKind.PREEMPTED,
            row,
            f"{_name_and_id(row)} was interrupted",
            f"Attempt {event.attempt} in {row.queue} stopped: {reason}. {work} The job is "
            f"queued again. 'bursar why {row.id}' shows when it starts.",
        )

    def _node_lost(self, job_id: str, row: JobRow | None, node: str) -> JobContent | None:
        """A job whose node was lost: no event of the job itself reports its end."""
        self._nodes.pop(job_id, None)
        if row is None or row.state is JobState.CANCELLED:
            return None
        if row.state is JobState.FAILED:
            return self._failure(row)
        return (
            NotificationKind.PREEMPTED,
            row,
            f"{_name_and_id(row)} was interrupted",
            f"Its attempt in {row.queue} stopped: its node {node} was lost. Work since its last "
            f"checkpoint is lost. The job is queued again. 'bursar why {row.id}' shows when it starts.",
        )

    def _failed(self, event: AttemptEnded) -> JobContent | None:
        row = self._job(event.job_id)
        self._nodes.pop(event.job_id, None)
        return None if row is None or row.state is not JobState.FAILED else self._failure(row)

    def _failure(self, row: JobRow) -> JobContent:
        after = (
            f" after {write_duration(row.ended_at_ms - row.started_at_ms)}"
            if row.started_at_ms is not None and row.ended_at_ms is not None
            else ""
        )
        return (
            NotificationKind.FAILED,
            row,
            f"{_name_and_id(row)} failed",
            f"Attempt {row.attempt} in {row.queue} ended{after} with {_exit_text(row)}; no retry is left. "
            f"'bursar logs {row.id}' shows its output, 'bursar retry {row.id}' runs it again.",
        )

    def _recovered(self, event: AttemptResumed | CheckpointSaved) -> JobContent | None:
        row = self._job(event.job_id)
        if row is None:
            return None
        _cache(self._recovered_attempts, event.job_id, event.attempt)
        step = f" at step {event.step:,}" if event.step is not None else ""
        progress = (
            "resumed from a checkpoint"
            if isinstance(event, AttemptResumed)
            else "saved a checkpoint"
        )
        return (
            NotificationKind.RECOVERED,
            row,
            f"{_name_and_id(row)} recovered",
            f"Attempt {event.attempt} in {row.queue} {progress}{step}.",
        )


def _job_messages(content: JobContent | None, recorded: Recorded) -> list[Notification]:
    if content is None:
        return []
    occasion, row, title, text = content
    return [
        Notification(
            occasion=occasion,
            at_ms=recorded.event.at_ms,
            tenant=row.queue,
            title=title,
            text=text,
            job_id=row.id,
            sequence=recorded.sequence,
        )
    ]


def _cache(cache: OrderedDict[str, Value], job_id: str, value: Value) -> None:
    cache[job_id] = value
    cache.move_to_end(job_id)
    if len(cache) > MAX_CACHED_JOBS:
        cache.popitem(last=False)


def _name_and_id(row: JobRow) -> str:
    return f"{row.name[:60]} ({row.id})"


def _stop_reason(event: AttemptPreempted, request: AttemptStopping | None) -> str:
    if event.cause is PreemptionCause.NOTICE:
        return "its node is being reclaimed"
    if event.cause is PreemptionCause.UNPROMPTED:
        return "it requested to run again"
    if request is None or not request.why:
        return "a stop was requested"
    reason = request.why.replace("-", " ")
    return f"{reason}, for another job" if request.on_behalf_of else reason


def _exit_text(row: JobRow) -> str:
    if row.exit_signal is not None:
        return f"signal {row.exit_signal}"
    if row.exit_code is not None:
        return f"exit code {row.exit_code}"
    return row.exit_detail or "no exit code"


def _budget(event: BudgetLevelChanged, sequence: int) -> Notification:
    spent, amount = write_usd(event.spent_micro_usd), write_usd(event.amount_micro_usd)
    return Notification(
        occasion=NotificationKind.BUDGET,
        at_ms=event.at_ms,
        tenant=event.tenant,
        title=f"{event.tenant} has spent {event.level} % of its budget",
        text=(
            f"{spent} of {amount} spent in this period. 'bursar budget' shows what is held, what is left "
            "and what happens at the next threshold."
        ),
        sequence=sequence,
    )
