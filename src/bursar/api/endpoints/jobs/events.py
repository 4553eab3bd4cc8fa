"""Streams new events of the jobs that the caller may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.http.route import Parameter, Route
from bursar.api.streams.event_hub import BATCH_SIZE, EventHub, Follower
from bursar.api.streams.event_stream import ServerSentEvent, stream
from bursar.model.tenants.identity import Permission
from bursar.ports import StoreReader

TOKEN_CHECK_SECONDS = 0.5
"""How often a stream checks that its token is still valid."""
MAX_RESUMED = 100_000
"""A client that missed more events than this must read the list of jobs again."""


@Route(
    "GET",
    "/v1/events",
    Permission.READ_JOBS,
    "Events as they come.",
    media=(wire.EVENT_STREAM,),
    headers=(
        Parameter(wire.LAST_EVENT_HEADER, "Resume after this event.", pattern=r"[0-9]{1,18}"),
    ),
)
async def follow_events(request: RequestContext) -> Response:
    """Events of jobs, as server-sent events.

    New events of the caller's jobs; with ``Last-Event-ID`` also those after it.
    """
    after = _last_event_id(request)
    return stream(request, _events(request, after, await request.visible_queues()))


def _last_event_id(request: RequestContext) -> int | None:
    text = request.headers.get(wire.LAST_EVENT_HEADER.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise HttpRefusal(
            f"{wire.LAST_EVENT_HEADER} is {text[:40]!r}.",
            fix="Send the id of the last event that you received.",
            code="wrong-value",
        )
    return int(text)


async def _events(
    request: RequestContext, after: int | None, visible: frozenset[str] | None
) -> AsyncIterator[ServerSentEvent | None]:
    hub: EventHub = request.context.hub
    follower = hub.join(visible)
    sent = 0
    try:
        if after is not None:
            async for event in _events_since(request, after, follower):
                if isinstance(event.values, dict):
                    sent = event.values.get("sequence", sent)
                yield event
        while not request.context.closing.is_set():
            events, missed = follower.take()
            if missed:
                yield ServerSentEvent(event="missed", values={"events": missed})
            for one in events:
                if one["sequence"] > sent:
                    yield _job_event(one)
            if not events:
                async for heartbeat in _wait_for_events(request, follower):
                    yield heartbeat
                if not await request.has_valid_token():
                    return
                follower.visible = await request.visible_queues()
    finally:
        hub.leave(follower)


async def _wait_for_events(request: RequestContext, follower: Follower) -> AsyncIterator[None]:
    """Waits briefly for events; yields a heartbeat (None) if one is due."""
    with suppress(TimeoutError):
        await asyncio.wait_for(follower.has_events.wait(), TOKEN_CHECK_SECONDS)
        return
    if request.needs_heartbeat(request.context.settings.heartbeat_seconds):
        yield None


async def _events_since(
    request: RequestContext, after: int, follower: Follower
) -> AsyncIterator[ServerSentEvent]:
    """Events that the client has missed, read from the store in batches."""
    hub = request.context.hub
    newest = await request.read_store(lambda store: store.last_sequence())
    if newest - after > MAX_RESUMED:
        yield ServerSentEvent(event="missed", values={"events": newest - after}, id=str(newest))
        return
    at = after
    while at < newest:
        last, events = await request.read_store(_read_batch, hub, at)
        if last is None:
            return
        for one in events:
            if follower.visible is None or one.get("queue", "") in follower.visible:
                yield _job_event(one)
        at = last


def _read_batch(
    reader: StoreReader, hub: EventHub, after: int
) -> tuple[int | None, list[wire.JobEventView]]:
    recorded = list(islice(reader.events(after=after, limit=BATCH_SIZE), BATCH_SIZE))
    return (recorded[-1].sequence if recorded else None), hub.job_events(reader, recorded)


def _job_event(event: wire.JobEventView) -> ServerSentEvent:
    return ServerSentEvent(event="job", values=event, id=str(event["sequence"]))
