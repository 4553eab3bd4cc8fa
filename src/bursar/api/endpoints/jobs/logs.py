"""Returns or follows the output of a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import cast

from starlette.responses import Response, StreamingResponse

from bursar.api import wire
from bursar.api.endpoints.pagination import decode_cursor, write_cursor
from bursar.api.endpoints.visibility import ArrayRow, find, find_job
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter, Route
from bursar.api.streams.event_stream import ServerSentEvent, stream
from bursar.api.streams.log_files import LogPosition, LogReader, select_files
from bursar.model.jobs.job import OVER
from bursar.model.tenants.identity import Permission
from bursar.ports import AttemptRef, AttemptRow, Engine, JobRow, LogFile

POLL_SECONDS = 0.25
JOB_CHECK_SECONDS = 1.0


@Route(
    "GET",
    "/v1/jobs/{job_id}/logs",
    Permission.READ_JOBS,
    "The output.",
    media=(wire.TEXT, wire.EVENT_STREAM),
    query=(
        Parameter("task", "Only output of this task.", minimum=0, maximum=1_000_000),
        Parameter("stream", "Only this stream.", choices=("stdout", "stderr")),
        Parameter("tail", "Only this many last lines.", minimum=0, maximum=1_000_000),
        Parameter(
            "attempt",
            "Output of this attempt; without it, of the last one.",
            minimum=1,
            maximum=1_000_000,
        ),
        Parameter("follow", "Follow the output while it is written.", choices=("true", "false")),
    ),
    headers=(Parameter(wire.LAST_EVENT_HEADER, "Resume after this event."),),
)
async def logs(request: RequestContext) -> Response:
    """The output of a job; with follow=true as server-sent events while it is written."""
    found = await find(request)
    if isinstance(found, ArrayRow):
        return _array_logs(request, found)
    attempt = await _attempt(request, found)
    if request.query.get("follow") == "true":
        reader = _resumed_reader(request, attempt)
        return stream(request, _follow(request, found, attempt, reader))
    files = await _files(request, attempt)
    reader = LogReader()
    if "tail" in request.query:
        await request.context.run_blocking(reader.skip_to_tail, files, request.query["tail"])
    return StreamingResponse(
        _text(request, files, reader), media_type=f"{wire.TEXT}; charset=utf-8"
    )


def _array_logs(request: RequestContext, array: ArrayRow) -> Response:
    """The output of all members, each under its id. Only one member can be followed."""
    if request.query.get("follow") == "true":
        raise HttpRefusal(
            f"{array}; only one of them can be followed at a time.",
            fix=f"Follow {array.first.id}, then the next; 'bursar logs -f {array.id}' does so.",
            code="is-an-array",
        )
    return StreamingResponse(_member_text(request, array), media_type=f"{wire.TEXT}; charset=utf-8")


async def _member_text(request: RequestContext, array: ArrayRow) -> AsyncIterator[bytes]:
    for job_id, _ in array.members:
        row = await request.context.run_blocking(request.context.plane.reader.job, job_id)
        if row is None or row.attempt == 0:
            continue
        files = await _files(request, await _attempt(request, row))
        reader = LogReader()
        if "tail" in request.query:
            await request.context.run_blocking(reader.skip_to_tail, files, request.query["tail"])
        yield f"==> {job_id} <==\n".encode()
        async for text in _text(request, files, reader):
            yield text


async def _attempt(request: RequestContext, row: JobRow) -> AttemptRow | None:
    attempts = await request.read_store(lambda store: store.attempts(row.id))
    number = request.query.get("attempt")
    if number is None:
        return attempts[-1] if attempts else None
    for one in attempts:
        if one.attempt == number:
            return one
    raise HttpRefusal(
        f"{row.id} has no attempt {number}; attempts so far: {len(attempts)}.",
        fix="Leave 'attempt' out to get the last one.",
        code="no-such-attempt",
    )


async def _files(request: RequestContext, attempt: AttemptRow | None) -> list[LogFile]:
    """The requested log files. A task that the attempt does not have is refused."""
    if attempt is None:
        return []
    cluster = (await request.context.fleet()).cluster_of_pool.get(attempt.placement.pool)
    engine = request.context.plane.engine_for(cluster) if cluster is not None else None
    if engine is None:
        raise HttpRefusal(
            f"the output of {attempt.job_id} is on a cluster that is no longer declared.",
            fix="Ask the operator whether its files are still on the nodes.",
            code="no-such-log",
        )
    return await request.context.run_blocking(_selected_files, engine, attempt, request.query)


def _selected_files(engine: Engine, attempt: AttemptRow, query: dict[str, object]) -> list[LogFile]:
    files = engine.logs(AttemptRef(job_id=attempt.job_id, attempt=attempt.attempt))
    task, name = query.get("task"), query.get("stream")
    if task is not None and files and not any(file.task == task for file in files):
        raise HttpRefusal(
            f"{attempt.job_id} has no task {task}; its number of tasks is {len({f.task for f in files})}.",
            fix="Tasks are numbered from 0.",
            code="no-such-log",
        )
    return select_files(files, cast("int | None", task), cast("str | None", name))


async def _text(
    request: RequestContext, files: list[LogFile], reader: LogReader
) -> AsyncIterator[bytes]:
    """The text of one stream after the other, with a header if there are several."""
    for file in files:
        first = True
        while pieces := await request.context.run_blocking(_read, reader, [file]):
            if first and len(files) > 1:
                yield f"==> task {file.task} {file.stream} ({file.node}) <==\n".encode()
            first = False
            for piece in pieces:
                yield piece["text"].encode("utf-8")


# -- following ---------------------------------------------------------------------------------------


async def _follow(
    request: RequestContext, row: JobRow, attempt: AttemptRow | None, reader: LogReader
) -> AsyncIterator[ServerSentEvent | None]:
    """Polls the files, so that a follower needs no thread and a slow client no buffer.

    Unless an attempt is named, the job is followed from one attempt to the next until it ends.
    """
    files = await _files(request, attempt)
    if "tail" in request.query and not reader.positions:
        await request.context.run_blocking(reader.skip_to_tail, files, request.query["tail"])
    checked_at = 0.0
    while not request.context.closing.is_set():
        pieces = await request.context.run_blocking(_read, reader, files)
        for number, piece in enumerate(pieces, start=1):
            position = _write_position(attempt, reader) if number == len(pieces) else ""
            yield ServerSentEvent(event="log", values=piece, id=position)
        if pieces:
            continue
        if time.monotonic() - checked_at >= JOB_CHECK_SECONDS:
            if _is_over(request, row, attempt):
                yield _end(row, attempt)
                return
            checked_at = time.monotonic()
            if not await request.has_valid_token():
                return
            row = await find_job(request)
            previous, attempt = attempt, await _attempt(request, row)
            if attempt is not None and (previous is None or previous.attempt != attempt.attempt):
                reader = LogReader()
                yield ServerSentEvent(event="attempt", values={"attempt": attempt.attempt})
            files = await _files(request, attempt)
            if _is_over(request, row, attempt):
                checked_at = 0.0
            continue
        if request.needs_heartbeat(request.context.settings.heartbeat_seconds):
            yield None
        await asyncio.sleep(POLL_SECONDS)


def _is_over(request: RequestContext, row: JobRow, attempt: AttemptRow | None) -> bool:
    """Whether no more output can come."""
    if "attempt" in request.query and attempt is not None:
        return bool(attempt.outcome) or row.state in OVER
    return row.state in OVER


def _read(reader: LogReader, files: list[LogFile]) -> list[wire.LogPiece]:
    return list(reader.chunks(files))


def _end(row: JobRow, attempt: AttemptRow | None) -> ServerSentEvent:
    end: wire.LogEnd = {
        "state": row.state.value,
        "attempt": attempt.attempt if attempt is not None else 0,
        "exit_code": row.exit_code,
    }
    return ServerSentEvent(event="end", values=end)


# -- resuming ---------------------------------------------------------------------------------------


def _write_position(attempt: AttemptRow | None, reader: LogReader) -> str:
    """Encodes the attempt and the read positions as the id of an event."""
    number = attempt.attempt if attempt is not None else 0
    positions = [
        [task, name, at.inode, at.offset] for (task, name), at in sorted(reader.positions.items())
    ]
    return write_cursor(number, positions)


def _resumed_reader(request: RequestContext, attempt: AttemptRow | None) -> LogReader:
    """A reader at the positions of ``Last-Event-ID``, if it is of the same attempt."""
    text = request.headers.get(wire.LAST_EVENT_HEADER.lower())
    if text is None:
        return LogReader()
    try:
        number, positions = decode_cursor(text)
        restored = {
            (int(task), str(name)): LogPosition(
                inode=int(inode), offset=min(max(0, int(offset)), 2**62)
            )
            for task, name, inode, offset in positions
        }
    except (ValueError, TypeError) as error:
        raise HttpRefusal(
            f"{wire.LAST_EVENT_HEADER} is not valid.",
            fix="Send the id of the last event that you received.",
            code="wrong-value",
        ) from error
    if attempt is None or number != attempt.attempt:
        return LogReader()
    return LogReader(positions=restored)
