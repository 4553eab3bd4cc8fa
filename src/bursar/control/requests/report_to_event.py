"""What an engine's report means: at most one event, and none when it is stale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import Answer
from bursar.core.state.attempt_ends import MOST_UNPROMPTED, AttemptEnd, is_newer, preemption_cause
from bursar.core.state.attempt_limits import write_limit
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.core.state.notices import is_new_notice
from bursar.model import event as ev
from bursar.model.engine_report import (
    CheckpointReported,
    EngineReport,
    ForeignReported,
    NodeBackReported,
    NodeLostReported,
    NoticeReported,
    OfAttempt,
    Progressed,
    Resumed,
    StopAcknowledged,
    TasksEnded,
    TasksStarted,
)
from bursar.model.fleet.fleet import Fleet
from bursar.model.jobs.attempt import PREEMPTED_EXIT, Exit
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import fence
from bursar.ports import AttemptRef

Amounts = tuple[tuple[int, ...], int, int]
"""GPUs, thousandths of CPUs, MiB."""


@dataclass(slots=True, kw_only=True)
class ReportContext:
    """What must be known beside the state to understand a report: what was said in the same breath.

    The state is as it was before everything that is committed together.
    """

    fleet: Fleet | None = None
    """As it was declared: a node that comes back is what it was declared to be."""
    saved: dict[str, int | None] = field(default_factory=dict)
    """Jobs that told that they saved something, and up to which step."""
    warned: set[str] = field(default_factory=set)
    """Jobs that told that somebody asked them to stop."""
    there: dict[str, bool] = field(default_factory=dict)
    """Nodes that were lost (false) or came back (true)."""
    foreign: dict[str, Amounts] = field(default_factory=dict)
    """What others were seen to use, by node."""

    def hear(self, event: ev.LoggedEvent) -> None:
        """One more fact that is committed together with those that follow."""
        match event:
            case ev.CheckpointSaved(job_id=job_id, step=step):
                self.saved[job_id] = step
            case ev.SpotNotice(job_id=job_id):
                self.warned.add(job_id or "")
            case ev.NodeLost(node=node):
                self.there[node] = False
            case ev.NodeAdded(node=added):
                self.there[added.id] = True
            case ev.ForeignUsageSeen(node=node):
                self.foreign[node] = (event.gpus, event.cpu_milli, event.memory_mib)
            case _:
                pass


def ignore(_refs: Sequence[AttemptRef]) -> None:
    """Nothing remembers these reports."""


@dataclass(slots=True, kw_only=True)
class TakeReports:
    """What engines said. ``stale`` counts what spoke of the past and was refused."""

    reports: Sequence[EngineReport]
    settled: Callable[[Sequence[AttemptRef]], None] = ignore
    """Told once the ends among the reports are committed: the engine may forget them."""
    future: Future[None] = field(default_factory=Future)
    alone: bool = False
    stale: int = 0

    def prepare(self, group: Transaction) -> Answer:
        ended: list[AttemptRef] = []
        beside = ReportContext(fleet=group.live.declared.fleet if group.live.declared else None)
        for before in group.events:
            beside.hear(before)
        for report in self.reports:
            if isinstance(report, Progressed):
                self._take_progress(report, group)
                continue
            event = event_for(report, group.state, group.now_ms, beside)
            if isinstance(report, TasksEnded):
                ended.append(AttemptRef(job_id=report.job_id, attempt=report.attempt))
            if event is None or not group.note(event, _subject(report)):
                self.stale += 1
            else:
                beside.hear(event)
        return lambda: self.settled(ended)

    def _take_progress(self, report: Progressed, group: Transaction) -> None:
        progress = progress_for(report, group.state, group.now_ms)
        if progress is None:
            self.stale += 1
        else:
            group.progressed[progress.job_id] = progress


def event_for(
    report: EngineReport, state: FleetState, now_ms: int, beside: ReportContext | None = None
) -> ev.Event | None:
    """The event that a report becomes. None: it is stale, or says what is known already."""
    beside = beside or ReportContext()
    match report:
        case NodeLostReported(node=node):
            is_there = beside.there.get(node, node in state.pool_of_node)
            return ev.NodeLost(at_ms=now_ms, node=node) if is_there else None
        case NodeBackReported(node=node):
            return _back(node, state, now_ms, beside)
        case NoticeReported(node=node, source=source, kind=kind, ends_at_ms=ends_at_ms):
            notice = ev.SpotNotice(
                at_ms=now_ms, node=node, source=source, kind=kind, ends_at_ms=ends_at_ms
            )
            is_known = node not in state.pool_of_node or not is_new_notice(
                state.notices.get(node), notice
            )
            return None if is_known else notice
        case ForeignReported():
            return _foreign(report, state, now_ms, beside.foreign.get(report.node))
        case _:
            record = fence(state.jobs.get(report.job_id), report.attempt)
            if record is None:
                return None
            at_ms = _believable(report.at_ms, record, now_ms)
            if isinstance(report, TasksEnded):
                return _end(report.exit, record, at_ms, (state, beside))
            return _on_the_way(report, record, at_ms)


def progress_for(report: Progressed, state: FleetState, now_ms: int) -> Progressed | None:
    """What a job says of how far it has come, at a believable time. None: an older attempt says it."""
    record = fence(state.jobs.get(report.job_id), report.attempt)
    if record is None:
        return None
    return replace(report, at_ms=_believable(report.at_ms, record, now_ms))


def _foreign(
    report: ForeignReported, state: FleetState, now_ms: int, said: Amounts | None
) -> ev.Event | None:
    """What others run there, when it is not what is known already, or was said in the same breath."""
    pool = state.pool_of_node.get(report.node)
    if pool is None:
        return None
    known = pool.by_id[report.node].foreign
    if said is None:
        said = (known.gpus, known.cpu_milli, known.memory_mib) if known else ((), 0, 0)
    if said == (report.gpus, report.cpu_milli, report.memory_mib):
        return None
    return ev.ForeignUsageSeen(
        at_ms=now_ms,
        node=report.node,
        gpus=report.gpus,
        cpu_milli=report.cpu_milli,
        memory_mib=report.memory_mib,
    )


def _back(node: str, state: FleetState, now_ms: int, beside: ReportContext) -> ev.Event | None:
    """A node that was closed or announced to go opens again; one that was lost joins anew."""
    if beside.there.get(node):
        return None
    pool, fleet = state.pool_of_node.get(node), beside.fleet
    if pool is not None and node not in beside.there:
        is_as_ever = pool.by_id[node].up and node not in state.notices
        return None if is_as_ever else ev.NodeRestored(at_ms=now_ms, node=node)
    declared = next((one for one in fleet.nodes if one.id == node), None) if fleet else None
    if declared is None or declared.pool not in state.pools:
        return None
    return ev.NodeAdded(at_ms=now_ms, node=declared)


def _on_the_way(report: OfAttempt, record: JobRecord, at_ms: int) -> ev.Event | None:
    job_id, attempt = record.id, record.attempt
    match report:
        case TasksStarted():
            if record.started_at_ms is not None:
                return None
            return ev.AttemptStarted(at_ms=at_ms, job_id=job_id, attempt=attempt)
        case CheckpointReported(step=step, save_ms=save_ms, size_bytes=size_bytes):
            if step is not None and (step, at_ms) == (record.saved_step, record.saved_at_ms):
                return None
            return ev.CheckpointSaved(
                at_ms=at_ms,
                job_id=job_id,
                attempt=attempt,
                step=step,
                save_ms=save_ms,
                size_bytes=size_bytes,
            )
        case Resumed(step=step):
            if _is_behind(at_ms, record):
                return None
            return ev.AttemptResumed(at_ms=at_ms, job_id=job_id, attempt=attempt, step=step)
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
                job_id=job_id,
                attempt=attempt,
            )
        case _:
            return None


def _is_behind(resumed_at_ms: int, record: JobRecord) -> bool:
    """Whether work is known to be safe that was done after this resume.

    After a restart engines read what a job has told from its beginning. Heard again, an old resume would
    let the saves that followed it count twice. Until one is heard, the start counts with the reload that
    the job declared.
    """
    began_ms = (record.started_at_ms or record.assigned_at_ms) + record.spec.checkpoint.restart_ms
    return record.saved_at_ms > max(resumed_at_ms, began_ms)


def _end(
    how: Exit,
    record: JobRecord,
    at_ms: int,
    known: tuple[FleetState, ReportContext],
) -> ev.Event:
    """How an attempt ended: well, because something made it stop, or by its own fault."""
    state, beside = known
    saved = beside.saved
    job_id, attempt = record.id, record.attempt
    if how.code == 0:
        return ev.AttemptSucceeded(at_ms=at_ms, job_id=job_id, attempt=attempt)
    if record.state is JobState.EXPIRING:
        how = _with_limit(how, record, at_ms)
    end = AttemptEnd(
        asks_again=how.code == PREEMPTED_EXIT,
        was_killed=how.signal is not None,
        has_saved=job_id in saved and is_newer(record, saved[job_id]),
        was_warned=job_id in beside.warned,
    )
    cause = preemption_cause(record, state.notices, end)
    if cause is None:
        if end.asks_again:
            how = replace(how, detail=_in_vain(how.detail))
        return ev.AttemptFailed(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=how)
    return ev.AttemptPreempted(at_ms=at_ms, job_id=job_id, attempt=attempt, exit=how, cause=cause)


def _in_vain(detail: str) -> str:
    told = (
        f"it asked to be run again (exit code {PREEMPTED_EXIT}) more than {MOST_UNPROMPTED} times in a "
        "row though nobody stopped it, and saved nothing newer"
    )
    return f"{told}; {detail}" if detail else told


def _with_limit(how: Exit, record: JobRecord, at_ms: int) -> Exit:
    """What ended a job at its limit stands with how it ended, so that nobody takes it for a fault."""
    limit = write_limit(record, at_ms)
    return replace(how, detail=f"{limit}; {how.detail}" if how.detail else limit)


def _believable(at_ms: int, record: JobRecord, now_ms: int) -> int:
    """Engines have clocks of their own: nothing happens before it was ordered, or after now."""
    return max(record.started_at_ms or record.assigned_at_ms, min(at_ms, now_ms))


def _subject(report: EngineReport) -> str:
    match report:
        case NodeLostReported() | NodeBackReported() | NoticeReported() | ForeignReported():
            return report.node
        case _:
            return report.job_id
