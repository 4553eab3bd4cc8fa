"""The log of jobs as it grows, for those who may see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext
from bursar.api.streams.event_hub import READ_AT_ONCE, EventHub, Follower
from bursar.api.streams.event_stream import Sent, stream
from bursar.ports import StoreReader

TICK_SECONDS = 0.5
"""How often a stream makes sure that its token still holds."""
MOST_RESUMED = 100_000
"""Whoever was away for longer than so many events begins anew with a list."""


async def follow_events(call: RequestContext) -> Response:
    """What happens to the caller's jobs from now on, or from behind ``Last-Event-ID``."""
    after = _last_seen(call)
    return stream(call, _events(call, after, await call.seen()))


def _last_seen(call: RequestContext) -> int | None:
    text = call.headers.get(wire.LAST_EVENT_HEADER.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise HttpRefusal(
            f"{wire.LAST_EVENT_HEADER} is {text[:40]!r}.",
            fix="Send the id of the last event you had, as it was sent.",
            code="wrong-value",
        )
    return int(text)


async def _events(
    call: RequestContext, after: int | None, seen: frozenset[str] | None
) -> AsyncIterator[Sent | None]:
    hub: EventHub = call.desk.hub
    follower = hub.join(seen)
    sent = 0
    try:
        if after is not None:
            async for event in _since(call, after, follower):
                if isinstance(event.values, dict):
                    sent = event.values.get("sequence", sent)
                yield event
        while not call.desk.closing.is_set():
            events, missed = follower.take()
            if missed:
                yield Sent(event="missed", values={"events": missed})
            for one in events:
                if one["sequence"] > sent:
                    yield _sent(one)
            if not events:
                async for sign in _more(call, follower):
                    yield sign
                if not await call.may_go_on():
                    return
                follower.seen = await call.seen()
    finally:
        hub.leave(follower)


async def _more(call: RequestContext, follower: Follower) -> AsyncIterator[None]:
    """Wait for something; a sign of life when the connection would look dead. Ends every second."""
    with suppress(TimeoutError):
        await asyncio.wait_for(follower.something.wait(), TICK_SECONDS)
        return
    if call.is_quiet_for(call.desk.settings.heartbeat_seconds):
        yield None


async def _since(call: RequestContext, after: int, follower: Follower) -> AsyncIterator[Sent]:
    """What was missed, read from the store piece by piece."""
    reader, hub = call.desk.plane.reader, call.desk.hub
    newest = await call.desk.read(reader.last_sequence)
    if newest - after > MOST_RESUMED:
        yield Sent(event="missed", values={"events": newest - after}, id=str(newest))
        return
    at = after
    while at < newest:
        last, events = await call.desk.read(_piece, reader, hub, at)
        if last is None:
            return
        for one in events:
            if follower.seen is None or one.get("queue", "") in follower.seen:
                yield _sent(one)
        at = last


def _piece(
    reader: StoreReader, hub: EventHub, after: int
) -> tuple[int | None, list[wire.JobEventView]]:
    recorded = list(islice(reader.events(after=after, limit=READ_AT_ONCE), READ_AT_ONCE))
    return (recorded[-1].sequence if recorded else None), hub.told(reader, recorded)


def _sent(event: wire.JobEventView) -> Sent:
    return Sent(event="job", values=event, id=str(event["sequence"]))
