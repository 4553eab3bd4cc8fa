"""Jobs: lists, one of them, what happened to it, and its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.pagination import read_cursor, write_cursor
from bursar.api.endpoints.visibility import ArrayRow, find, own_job
from bursar.api.http.request import RequestContext, answer
from bursar.api.wire import views
from bursar.control.requests.job_requests import CancelJobs
from bursar.core.explain.explain import explain
from bursar.core.explain.job_history import job_history
from bursar.core.state.fleet_state import FleetState
from bursar.model.explain.explanation import Explanation
from bursar.model.explain.job_history import PastEvent, PastPreemption
from bursar.model.jobs.job import OVER, JobState
from bursar.ports import JobFilter, JobRow, Recorded, StoreReader

PAGE = 100


async def list_jobs(call: RequestContext) -> Response:
    """The jobs the caller sees, newest first."""
    wanted = _filter(call.query, await call.seen())
    rows = await call.desk.read(call.desk.plane.reader.jobs, wanted)
    page: wire.JobPage = {
        "items": [views.job(row) for row in rows],
        "next_cursor": (
            write_cursor(rows[-1].submitted_at_ms, rows[-1].id)
            if len(rows) == wanted.limit
            else None
        ),
    }
    return answer(page)


def _filter(query: dict[str, Any], seen: frozenset[str] | None) -> JobFilter:
    queues = seen
    if "queue" in query:
        queues = frozenset(query["queue"])
        queues = queues if seen is None else queues & seen
    after = read_cursor(query["cursor"], int, str) if "cursor" in query else None
    label = query["label"].partition("=") if "label" in query else None
    return JobFilter(
        queues=queues,
        states=frozenset(JobState(one) for one in query.get("state", ())),
        owner=query.get("owner"),
        name=query.get("name"),
        label=(label[0], label[2]) if label is not None else None,
        after=(after[0], after[1]) if after is not None else None,
        limit=query.get("limit", PAGE),
    )


async def get_job(call: RequestContext) -> Response:
    """One job with its attempts and its document; of an array, where its members are."""
    found = await find(call)
    reader = call.desk.plane.reader
    if isinstance(found, ArrayRow):
        origin = await call.desk.read(reader.origin, found.first.id)
        document = origin.document if origin is not None else ""
        return answer({**_array(found), "attempts": [], "document": document})
    attempts, document = await call.desk.read(_story, reader, found.id)
    return answer({**views.job(found), "attempts": attempts, "document": document})


def _array(found: ArrayRow) -> wire.JobView:
    """An array as a job, with what its members have in common."""
    return {
        **views.job(replace(found.first, placement=None, progress=None)),
        "id": found.id,
        "name": found.name,
        "state": found.state.value,
        "attempt": 0,
        "failures": 0,
        "preemptions": 0,
        "started_at_ms": None,
        "ended_at_ms": None,
        "exit_code": None,
        "exit_signal": None,
        "exit_detail": "",
        "array": {
            "size": len(found.members),
            "states": {state.value: count for state, count in found.states.items()},
            "members": [{"id": one, "state": state.value} for one, state in found.members],
        },
    }


def _story(reader: StoreReader, job_id: str) -> tuple[list[wire.Attempt], str]:
    origin = reader.origin(job_id)
    attempts = [views.attempt(one) for one in reader.attempts(job_id)]
    return attempts, origin.document if origin is not None else ""


async def job_events(call: RequestContext) -> Response:
    """Everything that happened to a job, or to the jobs of an array."""
    found = await find(call)
    ids = [one for one, _ in found.members] if isinstance(found, ArrayRow) else [found.id]
    recorded = await call.desk.read(_events_of, call.desk.plane.reader, ids)
    items = [event for one in recorded if (event := views.job_event(one)) is not None]
    return answer({"items": items})


def _events_of(reader: StoreReader, job_ids: list[str]) -> list[Recorded]:
    found = {one.sequence: one for job_id in job_ids for one in reader.events_of(job_id)}
    return [found[sequence] for sequence in sorted(found)]


async def why(call: RequestContext) -> Response:
    """Why a job does not run, when it will, and what would start it now.

    Of an array the member is told of that matters most: one that waits before one that runs or is over.
    """
    found = await find(call)
    if not isinstance(found, ArrayRow):
        return answer(await _explained(call, found))
    row = await call.desk.read(call.desk.plane.reader.job, found.telling)
    told = await _explained(call, row if row is not None else found.first)
    told["text"] = [f"{found}.", *told["text"]]
    return answer({**told, "id": found.id, "state": found.state.value})


async def _explained(call: RequestContext, row: JobRow) -> wire.ExplanationView:
    seen = await call.seen()
    history = await call.desk.read(_past, call.desk.plane.reader, row.id, seen)

    def question(state: FleetState, now_ms: int) -> Explanation:
        if row.id not in state.jobs and row.id not in state.finished:
            return Explanation(job_id=row.id, state=row.state, now_ms=now_ms)
        found = explain(state, row.id, now_ms)
        return views.redacted(found, seen, views.who_sees(state, seen, row.id))

    found = await call.desk.ask(question)
    return views.explanation(replace(found, history=history))


def _past(reader: StoreReader, job_id: str, seen: frozenset[str] | None) -> tuple[PastEvent, ...]:
    """What befell a job. Whoever took its place is looked up: he may be over and gone by now."""
    events = job_history(one.event for one in reader.events_of(job_id))
    others = {one.on_behalf_of for one in events if isinstance(one, PastPreemption)}
    rows = (reader.job(one) for one in sorted(others))
    return views.named_past(events, {row.id: row.queue for row in rows if row is not None}, seen)


async def cancel(call: RequestContext) -> Response:
    """End a job, or all jobs of an array. One that is over already stays as it is."""
    found = await find(call)
    own_job(call, found.first if isinstance(found, ArrayRow) else found)
    members = found.members if isinstance(found, ArrayRow) else [(found.id, found.state)]
    stays = OVER | {JobState.CANCELLING}
    ends = [job_id for job_id, state in members if state not in stays]
    if ends:
        await call.desk.send(CancelJobs(job_ids=ends))
    now = await find(call)
    return answer(_array(now) if isinstance(now, ArrayRow) else views.job(now))
