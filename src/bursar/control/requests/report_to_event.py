"""Turns an engine's report into at most one event; stale reports into none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit, WriteRequest
from bursar.core.state.attempt_ends import MOST_UNPROMPTED, AttemptEnd, is_newer, preemption_cause
from bursar.core.state.attempt_limits import write_limit
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.core.state.notices import is_new_notice
from bursar.model import event as ev
from bursar.model.engine_report import (
    EngineReport,
    ForeignReported,
    NoticeReported,
    OfAttempt,
    Progressed,
    StopAcknowledged,
    TasksEnded,
)
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.attempt import PREEMPTED_EXIT, Exit
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import fence
from bursar.ports import AttemptRef

Amounts = tuple[tuple[int, ...], int, int]
"""GPU numbers, CPU thousandths, MiB of memory."""


@dataclass(slots=True, kw_only=True)
class ReportContext:
    """Earlier events of the same transaction; the state does not contain them yet."""

    fleet: Fleet | None = None
    """The declared fleet: a node that returns is restored as declared."""
    saved: dict[str, int | None] = field(default_factory=dict)
    """Jobs that saved a checkpoint, with its step."""
    warned: set[str] = field(default_factory=set)
    """Jobs that received a request to stop."""
    present: dict[str, bool] = field(default_factory=dict)
    """Nodes that were lost (false) or returned (true)."""
    foreign: dict[str, Amounts] = field(default_factory=dict)
    """Resources used by others, by node."""

    def add(self, event: ev.LoggedEvent) -> None:
        match event:
            case ev.CheckpointSaved(job_id=job_id, step=step):
                self.saved[job_id] = step
            case ev.SpotNotice(job_id=job_id):
                self.warned.add(job_id or "")
            case ev.NodeLost(node=node):
                self.present[node] = False
            case ev.NodeAdded(node=added):
                self.present[added.id] = True
            case ev.ForeignUsageSeen(node=node):
                self.foreign[node] = (event.gpus, event.cpu_milli, event.memory_mib)
            case _:
                pass


@dataclass(slots=True, kw_only=True)
class RecordReports(WriteRequest[None]):
    """Record engine reports as events. ``stale`` counts those of earlier attempts."""

    reports: Sequence[EngineReport]
    settled: Callable[[Sequence[AttemptRef]], None] = lambda _refs: None
    """Called when the ends among the reports are committed: the engine may forget them."""
    stale: int = 0

    def prepare(self, transaction: Transaction) -> AfterCommit:
        ended: list[AttemptRef] = []
        declared = transaction.live.declared
        context = ReportContext(fleet=declared.fleet if declared else None)
        for earlier in transaction.events:
            context.add(earlier)
        for report in self.reports:
            if isinstance(report, Progressed):
                self._record_progress(report, transaction)
                continue
            event = event_for(report, transaction.state, transaction.now_ms, context)
            if isinstance(report, TasksEnded):
                ended.append(AttemptRef(job_id=report.job_id, attempt=report.attempt))
            if event is None or not transaction.add(event, _subject(report)):
                self.stale += 1
            else:
                context.add(event)
        return lambda: self.settled(ended)

    def _record_progress(self, report: Progressed, transaction: Transaction) -> None:
        progress = progress_for(report, transaction.state, transaction.now_ms)
        if progress is None:
            self.stale += 1
        else:
            transaction.progressed[progress.job_id] = progress


def event_for(
    report: EngineReport, state: FleetState, now_ms: int, context: ReportContext | None = None
) -> ev.Event | None:
    """The event of a report; None if it is stale or adds nothing."""
    context = context or ReportContext()
    match report:
        case ev.NodeLost(node=node):
            is_present = context.present.get(node, node in state.pool_of_node)
            return replace(report, at_ms=now_ms) if is_present else None
        case ev.NodeRestored():
            return _node_back(replace(report, at_ms=now_ms), state, context)
        case NoticeReported(node=node, source=source, kind=kind, ends_at_ms=ends_at_ms):
            notice = ev.SpotNotice(
                at_ms=now_ms, node=node, source=source, kind=kind, ends_at_ms=ends_at_ms
            )
            is_known = node not in state.pool_of_node or not is_new_notice(
                state.notices.get(node), notice
            )
            return None if is_known else notice
        case ForeignReported():
            return _foreign_usage(report, state, now_ms, context.foreign.get(report.node))
        case _:
            record = fence(state.jobs.get(report.job_id), report.attempt)
            if record is None:
                return None
            at_ms = _clamp_time(report.at_ms, record, now_ms)
            if isinstance(report, TasksEnded):
                return _end(report.exit, record, at_ms, (state, context))
            return _while_live(report, record, at_ms)


def progress_for(report: Progressed, state: FleetState, now_ms: int) -> Progressed | None:
    """A progress report with a plausible time; None if it is of an earlier attempt."""
    record = fence(state.jobs.get(report.job_id), report.attempt)
    if record is None:
        return None
    return replace(report, at_ms=_clamp_time(report.at_ms, record, now_ms))


def _foreign_usage(
    report: ForeignReported, state: FleetState, now_ms: int, earlier: Amounts | None
) -> ev.Event | None:
    """Changed usage by others, compared with this transaction, else with the state."""
    pool = state.pool_of_node.get(report.node)
    if pool is None:
        return None
    known = pool.by_id[report.node].foreign
    if earlier is None:
        earlier = (known.gpus, known.cpu_milli, known.memory_mib) if known else ((), 0, 0)
    if earlier == (report.gpus, report.cpu_milli, report.memory_mib):
        return None
    return ev.ForeignUsageSeen(
        at_ms=now_ms,
        node=report.node,
        gpus=report.gpus,
        cpu_milli=report.cpu_milli,
        memory_mib=report.memory_mib,
    )


def _node_back(
    restored: ev.NodeRestored, state: FleetState, context: ReportContext
) -> ev.Event | None:
    """Restores a node that was drained or under notice; adds one that was lost."""
    node = restored.node
    if context.present.get(node):
        return None
    pool, fleet = state.pool_of_node.get(node), context.fleet
    if pool is not None and node not in context.present:
        is_unchanged = pool.by_id[node].up and node not in state.notices
        return None if is_unchanged else restored
    declared = next((one for one in fleet.nodes if one.id == node), None) if fleet else None
    if declared is None or declared.pool not in state.pools:
        return None
    return ev.NodeAdded(at_ms=restored.at_ms, node=declared)


def _while_live(report: OfAttempt, record: JobRecord, at_ms: int) -> ev.Event | None:
    """The event of a report from a live attempt, other than its end."""
    match report:
        case ev.AttemptStarted():
            return None if record.started_at_ms is not None else replace(report, at_ms=at_ms)
        case ev.CheckpointSaved(step=step):
            known = record.saved_step, record.saved_at_ms
            is_known = step is not None and (step, at_ms) == known
            return None if is_known else replace(report, at_ms=at_ms)
        case ev.AttemptResumed():
            return None if _is_outdated_resume(at_ms, record) else replace(report, at_ms=at_ms)
        case StopAcknowledged(source=source, ends_at_ms=ends_at_ms):
            if record.stop_requested or record.noticed or record.state is JobState.CANCELLING:
                return None
            assert record.placement is not None
            return ev.SpotNotice(
                at_ms=at_ms,
                node=record.placement.tasks[0].node,
                source=source,
                kind=ev.NoticeKind.TERMINATE,
                ends_at_ms=ends_at_ms,
                job_id=record.id,
                attempt=record.attempt,
            )
        case _:
            return None


def _is_outdated_resume(resumed_at_ms: int, record: JobRecord) -> bool:
    """Whether a checkpoint was saved after this resume.

    After a restart, engines read a job's reports from the beginning. An old resume applied again would
    count the saves after it twice. Before the first resume, the start plus the declared restart time
    counts as one.
    """
    began_ms = (record.started_at_ms or record.assigned_at_ms) + record.spec.checkpoint.restart_ms
    return record.saved_at_ms > max(resumed_at_ms, began_ms)


def _end(
    exit: Exit,
    record: JobRecord,
    at_ms: int,
    known: tuple[FleetState, ReportContext],
) -> ev.Event:
    """The end of an attempt: succeeded, preempted or failed."""
    state, context = known
    saved = context.saved
    job_id, attempt = record.id, record.attempt
    if exit.code == 0:
        return ev.AttemptSucceeded(at_ms=at_ms, job_id=job_id, attempt=attempt)
    if record.state is JobState.EXPIRING:
        exit = _prefix_detail(exit, write_limit(record, at_ms))
    end = AttemptEnd(
        asks_again=exit.code == PREEMPTED_EXIT,
        was_killed=exit.signal is not None,
        has_saved=job_id in saved and is_newer(record, saved[job_id]),
        was_warned=job_id in context.warned,
    )
    cause = preemption_cause(record, state.notices, end)
    if cause is None:
        if end.asks_again:
            exit = _prefix_detail(
                exit,
                f"it asked to be run again (exit code {PREEMPTED_EXIT}) more than {MOST_UNPROMPTED} "
                "times in a row without a request to stop, and saved nothing newer",
            )
        return ev.AttemptFailed(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=exit)
    return ev.AttemptPreempted(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=exit, cause=cause)


def _prefix_detail(exit: Exit, reason: str) -> Exit:
    return replace(exit, detail=f"{reason}; {exit.detail}" if exit.detail else reason)


def _clamp_time(at_ms: int, record: JobRecord, now_ms: int) -> int:
    """The time of a report, not before the order and not after now: engines' clocks differ."""
    return max(record.started_at_ms or record.assigned_at_ms, min(at_ms, now_ms))


def _subject(report: EngineReport) -> str:
    match report:
        case ev.NodeLost() | ev.NodeRestored() | NoticeReported() | ForeignReported():
            return report.node
        case _:
            return report.job_id
