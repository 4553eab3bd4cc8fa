"""A job's output: as it is, or as it grows."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import AsyncIterator
from typing import cast

from starlette.responses import Response, StreamingResponse

from bursar.api import wire
from bursar.api.endpoints.visibility import ArrayRow, find, find_job
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.streams.event_stream import Sent, stream
from bursar.api.streams.log_files import LogPosition, Reading, chosen
from bursar.model.jobs.job import OVER
from bursar.ports import AttemptRef, AttemptRow, Engine, JobRow, LogFile

POLL_SECONDS = 0.25
LOOK_AGAIN_SECONDS = 1.0


async def logs(call: RequestContext) -> Response:
    """The output of one attempt, the last one unless another is named."""
    found = await find(call)
    if isinstance(found, ArrayRow):
        return _all_members(call, found)
    row = found
    attempt = await _attempt(call, row)
    if call.query.get("follow") == "true":
        reading = _resumed(call, attempt)
        return stream(call, _follow(call, row, attempt, reading))
    files = await _files(call, attempt)
    reading = Reading()
    if "tail" in call.query:
        await call.desk.read(reading.skip_to_tail, files, call.query["tail"])
    return StreamingResponse(_text(call, files, reading), media_type=f"{wire.TEXT}; charset=utf-8")


def _all_members(call: RequestContext, array: ArrayRow) -> Response:
    """What all jobs of an array wrote, each under its id. Only one at a time can be followed."""
    if call.query.get("follow") == "true":
        raise HttpRefusal(
            f"{array}; one of them can be followed at a time.",
            fix=f"Follow {array.first.id}, then the next; 'bursar logs -f {array.id}' does so.",
            code="is-an-array",
        )
    return StreamingResponse(_each(call, array), media_type=f"{wire.TEXT}; charset=utf-8")


async def _each(call: RequestContext, array: ArrayRow) -> AsyncIterator[bytes]:
    for job_id, _ in array.members:
        row = await call.desk.read(call.desk.plane.reader.job, job_id)
        if row is None or row.attempt == 0:
            continue
        files = await _files(call, await _attempt(call, row))
        reading = Reading()
        if "tail" in call.query:
            await call.desk.read(reading.skip_to_tail, files, call.query["tail"])
        yield f"==> {job_id} <==\n".encode()
        async for piece in _text(call, files, reading):
            yield piece


async def _attempt(call: RequestContext, row: JobRow) -> AttemptRow | None:
    attempts = await call.desk.read(call.desk.plane.reader.attempts, row.id)
    wanted = call.query.get("attempt")
    if wanted is None:
        return attempts[-1] if attempts else None
    for one in attempts:
        if one.attempt == wanted:
            return one
    raise HttpRefusal(
        f"{row.id} has no attempt {wanted}; it has had {len(attempts)}.",
        fix="Leave attempt out for the last one.",
        code="no-such-attempt",
    )


async def _files(call: RequestContext, attempt: AttemptRow | None) -> list[LogFile]:
    """The streams that were asked for. A task or stream that the attempt does not have is refused."""
    if attempt is None:
        return []
    cluster = (await call.desk.ground()).cluster_of_pool.get(attempt.placement.pool)
    engine = call.desk.plane.engine_for(cluster) if cluster is not None else None
    if engine is None:
        raise HttpRefusal(
            f"the output of {attempt.job_id} was kept by a cluster that is no longer declared.",
            fix="Ask the operator whether its files are still on the nodes.",
            code="no-such-log",
        )
    return await call.desk.read(_named, engine, attempt, call.query)


def _named(engine: Engine, attempt: AttemptRow, query: dict[str, object]) -> list[LogFile]:
    files = engine.logs(AttemptRef(job_id=attempt.job_id, attempt=attempt.attempt))
    task, name = query.get("task"), query.get("stream")
    found = chosen(files, cast("int | None", task), cast("str | None", name))
    if task is not None and files and not any(file.task == task for file in files):
        raise HttpRefusal(
            f"{attempt.job_id} has no task {task}; it has {len({f.task for f in files})}.",
            fix="Tasks are numbered from 0.",
            code="no-such-log",
        )
    return found


async def _text(
    call: RequestContext, files: list[LogFile], reading: Reading
) -> AsyncIterator[bytes]:
    """One stream after the other, each under its name when there are several."""
    for file in files:
        first = True
        while pieces := await call.desk.read(_drained, reading, file):
            if first and len(files) > 1:
                yield f"==> task {file.task} {file.stream} ({file.node}) <==\n".encode()
            first = False
            for piece in pieces:
                yield piece["text"].encode("utf-8")


def _drained(reading: Reading, file: LogFile) -> list[wire.LogPiece]:
    return list(reading.pieces([file]))


# -- as it grows -------------------------------------------------------------------------------------


async def _follow(
    call: RequestContext, row: JobRow, attempt: AttemptRow | None, reading: Reading
) -> AsyncIterator[Sent | None]:
    """Poll the files: a follower costs no thread, and nothing piles up for one who does not read.

    Without a named attempt the job is followed from one attempt to the next, until it is over.
    """
    files = await _files(call, attempt)
    if "tail" in call.query and not reading.positions:
        await call.desk.read(reading.skip_to_tail, files, call.query["tail"])
    looked_at = 0.0
    while not call.desk.closing.is_set():
        pieces = await call.desk.read(_read, reading, files)
        for number, piece in enumerate(pieces, start=1):
            place = _write_place(attempt, reading) if number == len(pieces) else ""
            yield Sent(event="log", values=piece, id=place)
        if pieces:
            continue
        if time.monotonic() - looked_at >= LOOK_AGAIN_SECONDS:
            if _is_over(call, row, attempt):
                yield _end(row, attempt)
                return
            looked_at = time.monotonic()
            if not await call.may_go_on():
                return
            row = await find_job(call)
            before, attempt = attempt, await _attempt(call, row)
            if attempt is not None and (before is None or before.attempt != attempt.attempt):
                reading = Reading()
                yield Sent(event="attempt", values={"attempt": attempt.attempt})
            files = await _files(call, attempt)
            if _is_over(call, row, attempt):
                looked_at = 0.0
            continue
        if call.is_quiet_for(call.desk.settings.heartbeat_seconds):
            yield None
        await asyncio.sleep(POLL_SECONDS)


def _is_over(call: RequestContext, row: JobRow, attempt: AttemptRow | None) -> bool:
    """Whether nothing more can come of what is followed."""
    if "attempt" in call.query and attempt is not None:
        return bool(attempt.outcome) or row.state in OVER
    return row.state in OVER


def _read(reading: Reading, files: list[LogFile]) -> list[wire.LogPiece]:
    return list(reading.pieces(files))


def _end(row: JobRow, attempt: AttemptRow | None) -> Sent:
    end: wire.LogEnd = {
        "state": row.state.value,
        "attempt": attempt.attempt if attempt is not None else 0,
        "exit_code": row.exit_code,
    }
    return Sent(event="end", values=end)


# -- going on after a break --------------------------------------------------------------------------


def _write_place(attempt: AttemptRow | None, reading: Reading) -> str:
    number = attempt.attempt if attempt is not None else 0
    places = [
        [task, name, at.inode, at.offset] for (task, name), at in sorted(reading.positions.items())
    ]
    text = json.dumps([number, places], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("ascii")).decode("ascii").rstrip("=")


def _resumed(call: RequestContext, attempt: AttemptRow | None) -> Reading:
    """Where the client was, when it says so and still follows the same attempt."""
    text = call.headers.get(wire.LAST_EVENT_HEADER.lower())
    if text is None:
        return Reading()
    try:
        padded = text + "=" * (-len(text) % 4)
        number, places = json.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
        found = {
            (int(task), str(name)): LogPosition(
                inode=int(inode), offset=min(max(0, int(offset)), 2**62)
            )
            for task, name, inode, offset in places
        }
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise HttpRefusal(
            f"{wire.LAST_EVENT_HEADER} is not one that this server gave.",
            fix="Send the id of the last event you had, as it was sent.",
            code="wrong-value",
        ) from error
    if attempt is None or number != attempt.attempt:
        return Reading()
    return Reading(positions=found)
