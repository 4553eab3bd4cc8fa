"""Jobs: lists, one of them, what happened to it, and its end."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from bursar.api import views, wire
from bursar.api.call import Call, answer
from bursar.api.endpoints.cursors import read_cursor, write_cursor
from bursar.api.endpoints.found import find_job, own_job
from bursar.core.explain import explain
from bursar.core.state import FleetState
from bursar.model.explanation import Explanation
from bursar.model.job import OVER, JobState
from bursar.ports import JobFilter, StoreReader

PAGE = 100


async def list_jobs(call: Call) -> Response:
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


async def get_job(call: Call) -> Response:
    """One job with its attempts and its document."""
    row = await find_job(call)
    attempts, document = await call.desk.read(_story, call.desk.plane.reader, row.id)
    return answer({**views.job(row), "attempts": attempts, "document": document})


def _story(reader: StoreReader, job_id: str) -> tuple[list[wire.Attempt], str]:
    origin = reader.origin(job_id)
    attempts = [views.attempt(one) for one in reader.attempts(job_id)]
    return attempts, origin.document if origin is not None else ""


async def job_events(call: Call) -> Response:
    """Everything that happened to a job."""
    row = await find_job(call)
    recorded = await call.desk.read(call.desk.plane.reader.events_of, row.id)
    items = [event for one in recorded if (event := views.job_event(one)) is not None]
    return answer({"items": items})


async def why(call: Call) -> Response:
    """Why a job does not run, when it will, and what would start it now."""
    row = await find_job(call)
    seen = await call.seen()

    def question(state: FleetState, now_ms: int) -> Explanation:
        if row.id not in state.jobs and row.id not in state.finished:
            return Explanation(job_id=row.id, state=row.state, now_ms=now_ms)
        found = explain(state, row.id, now_ms)
        return views.redacted(found, seen, views.who_sees(state, seen, row.id))

    found = await call.desk.ask(question)
    return answer(views.explanation(found))


async def cancel(call: Call) -> Response:
    """End a job. One that is over already stays as it is."""
    row = await find_job(call)
    own_job(call, row)
    if row.state not in OVER and row.state is not JobState.CANCELLING:
        await call.desk.wait(call.desk.plane.cancel(call.who, [row.id]))
    return answer(views.job(await find_job(call)))
