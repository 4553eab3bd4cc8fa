"""Lists, shows, explains and cancels jobs; reports their interruptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.pagination import read_cursor, write_cursor
from bursar.api.endpoints.visibility import ArrayRow, find, find_job, require_owner
from bursar.api.http.request import RequestContext, json_response
from bursar.api.wire import views
from bursar.control.requests.job_requests import CancelJobs
from bursar.core.explain.explain import explain
from bursar.core.explain.interruption_report import PoolPrice, interruption_report
from bursar.core.state.fleet_state import FleetState
from bursar.governance.eligible_pools import options_of
from bursar.model.explain.explanation import Explanation
from bursar.model.explain.interruption_report import InterruptionReport
from bursar.model.explain.job_history import PastEvent, PastPreemption, job_history
from bursar.model.jobs.job import OVER, JobState
from bursar.ports import JobFilter, JobRow, Recorded, StoreReader

PAGE_SIZE = 100


async def list_jobs(request: RequestContext) -> Response:
    """The jobs that the caller may see, newest first."""
    job_filter = _filter(request.query, await request.visible_queues())
    rows = await request.context.run_blocking(request.context.plane.reader.jobs, job_filter)
    page: wire.JobPage = {
        "items": [views.job(row) for row in rows],
        "next_cursor": (
            write_cursor(rows[-1].submitted_at_ms, rows[-1].id)
            if len(rows) == job_filter.limit
            else None
        ),
    }
    return json_response(page)


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


async def get_job(request: RequestContext) -> Response:
    """One job with its attempts and its document; of an array, the states of its members."""
    found = await find(request)
    reader = request.context.plane.reader
    if isinstance(found, ArrayRow):
        origin = await request.context.run_blocking(reader.origin, found.first.id)
        document = origin.document if origin is not None else ""
        return json_response({**_array(found), "attempts": [], "document": document})
    attempts, document = await request.context.run_blocking(
        _attempts_and_document, reader, found.id
    )
    return json_response({**views.job(found), "attempts": attempts, "document": document})


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


def _attempts_and_document(reader: StoreReader, job_id: str) -> tuple[list[wire.Attempt], str]:
    origin = reader.origin(job_id)
    attempts = [views.attempt(one) for one in reader.attempts(job_id)]
    return attempts, origin.document if origin is not None else ""


async def job_events(request: RequestContext) -> Response:
    """All events of a job, or of the members of an array."""
    found = await find(request)
    ids = [one for one, _ in found.members] if isinstance(found, ArrayRow) else [found.id]
    recorded = await request.context.run_blocking(_events_of, request.context.plane.reader, ids)
    items = [event for one in recorded if (event := views.job_event(one)) is not None]
    return json_response({"items": items})


def _events_of(reader: StoreReader, job_ids: list[str]) -> list[Recorded]:
    events = {one.sequence: one for job_id in job_ids for one in reader.events_of(job_id)}
    return [events[sequence] for sequence in sorted(events)]


async def why(request: RequestContext) -> Response:
    """Explains why a job does not run, when it will start, and what would start it now.

    Of an array one member is explained: a waiting one, if there is one.
    """
    found = await find(request)
    if not isinstance(found, ArrayRow):
        return json_response(await _explain(request, found))
    row = await request.context.run_blocking(
        request.context.plane.reader.job, found.member_to_explain
    )
    view = await _explain(request, row if row is not None else found.first)
    view["text"] = [f"{found}.", *view["text"]]
    return json_response({**view, "id": found.id, "state": found.state.value})


async def _explain(request: RequestContext, row: JobRow) -> wire.ExplanationView:
    visible = await request.visible_queues()
    history = await request.context.run_blocking(
        _history, request.context.plane.reader, row.id, visible
    )

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


async def why_preempted(request: RequestContext) -> Response:
    """A report of a job's interruptions, from its events."""
    row = await find_job(request)
    recorded = await request.context.run_blocking(request.context.plane.reader.events_of, row.id)

    def query(state: FleetState, _now_ms: int) -> list[PoolPrice]:
        return [
            PoolPrice(pool=one.pool, market=one.market, micro_usd_per_hour=one.micro_usd_per_hour)
            for one in options_of(row.spec, state)
        ]

    other_pools = await request.context.query_state(query)
    report = interruption_report(row.id, [one.event for one in recorded], other_pools)
    return json_response(_interruptions(replace(report, state=row.state, attempts=row.attempt)))


def _interruptions(report: InterruptionReport) -> wire.InterruptionReportView:
    return views.to_wire(
        report,
        wire.InterruptionReportView,
        id=report.job_id,
        interruptions=[views.to_wire(one, wire.InterruptionView) for one in report.interruptions],
        text=list(report.lines()),
    )


async def cancel(request: RequestContext) -> Response:
    """Cancels a job, or all members of an array; jobs that have ended are not changed."""
    found = await find(request)
    require_owner(request, found.first if isinstance(found, ArrayRow) else found)
    members = found.members if isinstance(found, ArrayRow) else [(found.id, found.state)]
    unchanged = OVER | {JobState.CANCELLING}
    job_ids = [job_id for job_id, state in members if state not in unchanged]
    if job_ids:
        await request.context.send(CancelJobs(job_ids=job_ids))
    found = await find(request)
    return json_response(_array(found) if isinstance(found, ArrayRow) else views.job(found))
