"""Lists, shows, explains and cancels jobs; reports their interruptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bursar.api import wire
from bursar.api.endpoints.pagination import CURSOR, LIMIT, PAGE_SIZE, read_cursor, write_cursor
from bursar.api.endpoints.visibility import ArrayRow, find, find_job, require_owner
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter, Route
from bursar.api.wire import views
from bursar.control.requests.job_requests import CancelJobs
from bursar.core.admission.eligible_pools import EligiblePool, eligible_pools
from bursar.core.explain.explain import explain
from bursar.core.explain.interruption_report import interruption_report
from bursar.core.state.fleet_state import FleetState
from bursar.model.explain.explanation import Explanation
from bursar.model.explain.job_history import PastEvent, PastPreemption, job_history
from bursar.model.jobs.job import OVER, JobState
from bursar.model.tenants.identity import Permission
from bursar.ports import JobFilter, JobRow, Recorded, StoreReader


@Route(
    "GET",
    "/v1/jobs",
    Permission.READ_JOBS,
    "A page of jobs.",
    query=(
        Parameter(
            "state",
            "Only jobs in this state; may be repeated.",
            choices=tuple(one.value for one in JobState),
            is_repeated=True,
        ),
        Parameter("queue", "Only jobs of this queue; may be repeated.", is_repeated=True),
        Parameter("owner", "Only jobs of this user."),
        Parameter("name", "Only jobs with this name."),
        Parameter(
            "label",
            "Only jobs with this label, as key=value.",
            pattern=r"[^=\x00-\x1f\x7f]{1,100}=[^\x00-\x1f\x7f]{0,100}",
        ),
        LIMIT,
        CURSOR,
    ),
)
async def list_jobs(request: RequestContext) -> wire.JobPage:
    """Jobs, newest first."""
    job_filter = _filter(request.query, await request.visible_queues())
    rows = await request.read_store(lambda store: store.jobs(job_filter))
    is_full = len(rows) == job_filter.limit
    return {
        "items": [views.job(row) for row in rows],
        "next_cursor": write_cursor(rows[-1].submitted_at_ms, rows[-1].id) if is_full else None,
    }


def _filter(query: dict[str, Any], visible: frozenset[str] | None) -> JobFilter:
    queues = visible
    if "queue" in query:
        queues = frozenset(query["queue"])
        queues = queues if visible is None else queues & visible
    after = read_cursor(query["cursor"], int, str) if "cursor" in query else None
    label = query["label"].partition("=") if "label" in query else None
    return JobFilter(
        queues=queues,
        states=frozenset(JobState(one) for one in query.get("state", ())),
        owner=query.get("owner"),
        name=query.get("name"),
        label=(label[0], label[2]) if label is not None else None,
        after=(after[0], after[1]) if after is not None else None,
        limit=query.get("limit", PAGE_SIZE),
    )


@Route("GET", "/v1/jobs/{job_id}", Permission.READ_JOBS, "The job.")
async def get_job(request: RequestContext) -> wire.JobDetail:
    """One job with its attempts and its document.

    Of an array, the states of its members.
    """
    found = await find(request)
    job_id = found.first.id if isinstance(found, ArrayRow) else found.id
    origin = await request.read_store(lambda store: store.origin(job_id))
    document = origin.document if origin is not None else ""
    if isinstance(found, ArrayRow):
        return {**_array(found), "attempts": [], "document": document}
    rows = await request.read_store(lambda store: store.attempts(job_id))
    attempts = [views.attempt(row) for row in rows]
    return {**views.job(found), "attempts": attempts, "document": document}


def _array(array: ArrayRow) -> wire.JobView:
    """An array as a job, with what its members have in common."""
    return {
        **views.job(replace(array.first, placement=None, progress=None)),
        "id": array.id,
        "name": array.name,
        "state": array.state.value,
        "attempt": 0,
        "failures": 0,
        "preemptions": 0,
        "started_at_ms": None,
        "ended_at_ms": None,
        "exit_code": None,
        "exit_signal": None,
        "exit_detail": "",
        "array": {
            "size": len(array.members),
            "states": {state.value: count for state, count in array.states.items()},
            "members": [{"id": one, "state": state.value} for one, state in array.members],
        },
    }


@Route("GET", "/v1/jobs/{job_id}/events", Permission.READ_JOBS, "The events, in order.")
async def job_events(request: RequestContext) -> wire.JobEvents:
    """All events of a job.

    Of an array, those of all members.
    """
    found = await find(request)
    ids = [one for one, _ in found.members] if isinstance(found, ArrayRow) else [found.id]
    recorded = await request.read_store(_events_of, ids)
    return {"items": [event for one in recorded if (event := views.job_event(one)) is not None]}


def _events_of(reader: StoreReader, job_ids: list[str]) -> list[Recorded]:
    events = {one.sequence: one for job_id in job_ids for one in reader.events_of(job_id)}
    return [events[sequence] for sequence in sorted(events)]


@Route("GET", "/v1/jobs/{job_id}/why", Permission.READ_JOBS, "The explanation.")
async def why(request: RequestContext) -> wire.ExplanationView:
    """Why a job does not run, when it will start, and what would start it now.

    Of an array one member is explained: a waiting one, if there is one.
    """
    found = await find(request)
    if not isinstance(found, ArrayRow):
        return await _explain(request, found)
    row = await request.read_store(lambda store: store.job(found.member_to_explain))
    view = await _explain(request, row if row is not None else found.first)
    text = [f"{found}.", *view["text"]]
    return {**view, "id": found.id, "state": found.state.value, "text": text}


async def _explain(request: RequestContext, row: JobRow) -> wire.ExplanationView:
    visible = await request.visible_queues()
    history = await request.read_store(_history, row.id, visible)

    def query(state: FleetState, now_ms: int) -> Explanation:
        if row.id not in state.jobs and row.id not in state.finished:
            return Explanation(job_id=row.id, state=row.state, now_ms=now_ms)
        explanation = explain(state, row.id, now_ms)
        return views.redact(explanation, visible, views.job_visibility(state, visible, row.id))

    explanation = await request.context.query_state(query)
    return views.explanation(replace(explanation, history=history))


def _history(
    reader: StoreReader, job_id: str, visible: frozenset[str] | None
) -> tuple[PastEvent, ...]:
    """What stopped a job before. Preemptors are read from the store: they may have ended since."""
    events = job_history(one.event for one in reader.events_of(job_id))
    preemptors = {one.on_behalf_of for one in events if isinstance(one, PastPreemption)}
    rows = (reader.job(one) for one in sorted(preemptors))
    return views.redact_history(
        events, {row.id: row.queue for row in rows if row is not None}, visible
    )


@Route(
    "GET", "/v1/jobs/{job_id}/interruptions", Permission.READ_JOBS, "The report.", problems=(404,)
)
async def why_preempted(request: RequestContext) -> wire.InterruptionReportView:
    """What interrupted a job, what that cost, and what would help."""
    row = await find_job(request)
    recorded = await request.read_store(lambda store: store.events_of(row.id))

    def query(state: FleetState, _now_ms: int) -> tuple[EligiblePool, ...]:
        return eligible_pools(row.spec, state)

    pools = await request.context.query_state(query)
    report = interruption_report(row.id, [one.event for one in recorded], pools)
    report = replace(report, state=row.state, attempts=row.attempt)
    return views.to_wire(
        report,
        wire.InterruptionReportView,
        id=report.job_id,
        interruptions=[views.to_wire(one, wire.InterruptionView) for one in report.interruptions],
        text=list(report.lines()),
    )


@Route(
    "POST",
    "/v1/jobs/{job_id}:cancel",
    Permission.WRITE_JOBS,
    "The job as it is now.",
    writes=True,
    is_audited=True,
)
async def cancel(request: RequestContext) -> wire.JobView:
    """Cancel a job. Its owner and leads may.

    Of an array, all members. Jobs that have ended are not changed.
    """
    found = await find(request)
    require_owner(request, found.first if isinstance(found, ArrayRow) else found)
    members = found.members if isinstance(found, ArrayRow) else [(found.id, found.state)]
    unchanged = OVER | {JobState.CANCELLING}
    job_ids = [job_id for job_id, state in members if state not in unchanged]
    if job_ids:
        await request.context.send(CancelJobs(job_ids=job_ids))
    found = await find(request)
    return _array(found) if isinstance(found, ArrayRow) else views.job(found)
