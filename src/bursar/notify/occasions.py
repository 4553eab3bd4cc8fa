"""Which events are worth telling, and in what words.

What is told of a job is told to whoever hears of its queue, so it never names another tenant's job.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TypeVar

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

Kept = TypeVar("Kept")
KEPT = 10_000
"""Jobs that are remembered: why they were told to stop, and that they were told of."""


class Occasions:
    """Turns events into messages. Remembers where jobs run, and why they were told to stop."""

    def __init__(self, job: Callable[[str], JobRow | None]) -> None:
        self._job = job
        self._stopping: OrderedDict[str, AttemptStopping] = OrderedDict()
        self._back: OrderedDict[str, int] = OrderedDict()
        self._placed: OrderedDict[str, frozenset[str]] = OrderedDict()

    def begin(self, running: Iterable[JobRow]) -> None:
        """Learn where jobs run that started before anybody listened."""
        for row in running:
            if row.placement is not None:
                _keep(
                    self._placed, row.id, frozenset(task.node for task in row.placement.all_tasks)
                )

    def messages(self, recorded: Recorded) -> list[Notification]:
        """What there is to say of an event: mostly nothing."""
        match recorded.event:
            case AttemptAssigned() as event:
                nodes = frozenset(task.node for task in event.placement.all_tasks)
                _keep(self._placed, event.job_id, nodes)
            case AttemptStopping() as event:
                _keep(self._stopping, event.job_id, event)
            case AttemptPreempted() as event:
                return self._of_job(self._preempted(event), recorded)
            case AttemptFailed() as event:
                return self._of_job(self._failed(event), recorded)
            case AttemptResumed(attempt=attempt) | CheckpointSaved(attempt=attempt) as event:
                if attempt > 1 and self._back.get(event.job_id) != attempt:
                    return self._of_job(self._recovered(event), recorded)
            case BudgetLevelChanged() as event if event.level:
                return [_budget(event, recorded.sequence)]
            case NodeLost(node=node):
                there = [job for job, nodes in self._placed.items() if node in nodes]
                said = [self._lost(job, node) for job in there]
                return [one for job in said for one in self._of_job(job, recorded)]
            case AttemptSucceeded(job_id=job_id):
                self._placed.pop(job_id, None)
            case _:
                pass
        return []

    def _of_job(
        self, said: tuple[NotificationKind, JobRow, str, str] | None, at: Recorded
    ) -> list[Notification]:
        if said is None:
            return []
        occasion, row, title, text = said
        return [
            Notification(
                occasion=occasion,
                at_ms=at.event.at_ms,
                tenant=row.queue,
                title=title,
                text=text,
                job_id=row.id,
                sequence=at.sequence,
            )
        ]

    # -- jobs ------------------------------------------------------------------------------------

    def _preempted(
        self, event: AttemptPreempted
    ) -> tuple[NotificationKind, JobRow, str, str] | None:
        row = self._job(event.job_id)
        why = self._stopping.pop(event.job_id, None)
        self._placed.pop(event.job_id, None)
        if row is None or row.state is JobState.CANCELLED:
            return None
        if row.state is JobState.FAILED:
            return self._failed(event)
        reason = _reason(event, why)
        lost = why.lost_micro_usd if why is not None else 0
        work = f" {write_usd(lost)} of work was not saved." if lost else " No work was lost."
        return (
            NotificationKind.PREEMPTED,
            row,
            f"{_named(row)} was interrupted",
            f"Attempt {event.attempt} in {row.queue} stopped: {reason}.{work} The job waits again by "
            f"itself. 'bursar why {row.id}' says when it starts.",
        )

    def _lost(self, job_id: str, node: str) -> tuple[NotificationKind, JobRow, str, str] | None:
        """Its node went while it ran there: no event of its own tells that it has stopped."""
        row = self._job(job_id)
        self._placed.pop(job_id, None)
        if row is None or row.state is JobState.CANCELLED:
            return None
        if row.state is JobState.FAILED:
            return self._failed_row(row)
        return (
            NotificationKind.PREEMPTED,
            row,
            f"{_named(row)} was interrupted",
            f"Its attempt in {row.queue} stopped: its node {node} was lost. What it had not saved is lost. "
            f"The job waits again by itself. 'bursar why {row.id}' says when it starts.",
        )

    def _failed(self, event: AttemptEnded) -> tuple[NotificationKind, JobRow, str, str] | None:
        row = self._job(event.job_id)
        self._placed.pop(event.job_id, None)
        return None if row is None or row.state is not JobState.FAILED else self._failed_row(row)

    def _failed_row(self, row: JobRow) -> tuple[NotificationKind, JobRow, str, str]:
        took = (
            f" after {write_duration(row.ended_at_ms - row.started_at_ms)}"
            if row.started_at_ms is not None and row.ended_at_ms is not None
            else ""
        )
        return (
            NotificationKind.FAILED,
            row,
            f"{_named(row)} failed",
            f"Attempt {row.attempt} in {row.queue} ended{took} with {_how(row)}, and no retry is left. "
            f"'bursar logs {row.id}' shows its output, 'bursar retry {row.id}' runs it again.",
        )

    def _recovered(
        self, event: AttemptResumed | CheckpointSaved
    ) -> tuple[NotificationKind, JobRow, str, str] | None:
        row = self._job(event.job_id)
        if row is None:
            return None
        _keep(self._back, event.job_id, event.attempt)
        step = f" step {event.step:,}" if event.step is not None else " what was saved"
        did = "goes on from" if isinstance(event, AttemptResumed) else "has saved"
        return (
            NotificationKind.RECOVERED,
            row,
            f"{_named(row)} is back",
            f"Attempt {event.attempt} in {row.queue} {did}{step}.",
        )


def _keep(kept: OrderedDict[str, Kept], key: str, value: Kept) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT:
        kept.popitem(last=False)


def _named(row: JobRow) -> str:
    return f"{row.name[:60]} ({row.id})"


def _reason(event: AttemptPreempted, why: AttemptStopping | None) -> str:
    if event.cause is PreemptionCause.NOTICE:
        return "its node is being taken away"
    if event.cause is PreemptionCause.UNPROMPTED:
        return "it asked to be run again"
    if why is None or not why.why:
        return "it was told to"
    return (
        f"{why.why.replace('-', ' ')}, for another job"
        if why.on_behalf_of
        else why.why.replace("-", " ")
    )


def _how(row: JobRow) -> str:
    if row.exit_signal is not None:
        return f"signal {row.exit_signal}"
    if row.exit_code is not None:
        return f"exit code {row.exit_code}"
    return row.exit_detail or "no exit code"


# -- budgets ---------------------------------------------------------------------------------------


def _budget(event: BudgetLevelChanged, sequence: int) -> Notification:
    spent, amount = write_usd(event.spent_micro_usd), write_usd(event.amount_micro_usd)
    return Notification(
        occasion=NotificationKind.BUDGET,
        at_ms=event.at_ms,
        tenant=event.tenant,
        title=f"{event.tenant} has spent {event.level} % of its budget",
        text=(
            f"{spent} of {amount} are spent in this period. 'bursar budget' says what is held, what is left "
            "and what happens at the next step."
        ),
        sequence=sequence,
    )
