"""What an engine's report means: at most one event, and none when it speaks of the past."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bursar.core.attempt_limits import write_limit
from bursar.core.line import JobRecord
from bursar.core.notices import MOST_UNPROMPTED, Ending, is_newer, is_news, why_it_stopped
from bursar.core.state import FleetState
from bursar.model import event as ev
from bursar.model.attempt import PREEMPTED_EXIT, Exit
from bursar.model.fleet import Fleet
from bursar.model.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.model.report import (
    CheckpointReported,
    ForeignSeen,
    NodeBack,
    NodeGone,
    NoticeReport,
    OfAttempt,
    Progressed,
    Report,
    Resumed,
    StopHeard,
    TasksEnded,
    TasksStarted,
)

Amounts = tuple[tuple[int, ...], int, int]
"""GPUs, thousandths of CPUs, MiB."""


@dataclass(slots=True, kw_only=True)
class Beside:
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


def event_for(
    report: Report, state: FleetState, now_ms: int, beside: Beside | None = None
) -> ev.Event | None:
    """The event that a report becomes. None: it is stale, or says what is known already."""
    beside = beside or Beside()
    match report:
        case NodeGone(node=node):
            is_there = beside.there.get(node, node in state.pool_of_node)
            return ev.NodeLost(at_ms=now_ms, node=node) if is_there else None
        case NodeBack(node=node):
            return _back(node, state, now_ms, beside)
        case NoticeReport(node=node, source=source, kind=kind, ends_at_ms=ends_at_ms):
            notice = ev.SpotNotice(
                at_ms=now_ms, node=node, source=source, kind=kind, ends_at_ms=ends_at_ms
            )
            is_known = node not in state.pool_of_node or not is_news(
                state.notices.get(node), notice
            )
            return None if is_known else notice
        case ForeignSeen():
            return _foreign(report, state, now_ms, beside.foreign.get(report.node))
        case _:
            record = _fenced(report.job_id, report.attempt, state)
            if record is None:
                return None
            at_ms = _believable(report.at_ms, record, now_ms)
            if isinstance(report, TasksEnded):
                return _end(report.exit, record, at_ms, (state, beside))
            return _on_the_way(report, record, at_ms)


def progress_for(report: Progressed, state: FleetState, now_ms: int) -> Progressed | None:
    """What a job says of how far it has come, at a believable time. None: an older attempt says it."""
    record = _fenced(report.job_id, report.attempt, state)
    if record is None:
        return None
    return replace(report, at_ms=_believable(report.at_ms, record, now_ms))


def _foreign(
    report: ForeignSeen, state: FleetState, now_ms: int, said: Amounts | None
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


def _back(node: str, state: FleetState, now_ms: int, beside: Beside) -> ev.Event | None:
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


def _fenced(job_id: str, attempt: int, state: FleetState) -> JobRecord | None:
    """The attempt number is the fencing token: only the live attempt may change anything."""
    record = state.jobs.get(job_id)
    if record is None or record.attempt != attempt or record.state not in LIVE:
        return None
    return record


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
        case StopHeard(source=source, ends_at_ms=ends_at_ms):
            if record.told_to_stop or record.noticed or record.state is JobState.CANCELLING:
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
    known: tuple[FleetState, Beside],
) -> ev.Event:
    """How an attempt ended: well, because something made it stop, or by its own fault."""
    state, beside = known
    saved = beside.saved
    job_id, attempt = record.id, record.attempt
    if how.code == 0:
        return ev.AttemptSucceeded(at_ms=at_ms, job_id=job_id, attempt=attempt)
    if record.state is JobState.EXPIRING:
        how = _with_limit(how, record, at_ms)
    end = Ending(
        asks_again=how.code == PREEMPTED_EXIT,
        was_killed=how.signal is not None,
        has_saved=job_id in saved and is_newer(record, saved[job_id]),
        was_warned=job_id in beside.warned,
    )
    cause = why_it_stopped(record, state.notices, end)
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
