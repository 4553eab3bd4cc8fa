"""Responses of server-sent events, with heartbeats and a limit on open streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.responses import StreamingResponse

from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import AppContext, RequestContext
from bursar.api.wire.jobs import EVENT_STREAM
from bursar.model.errors import UserError

HEARTBEAT = b": still here\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSentEvent:
    """One event. The client sends ``id`` back to resume after it."""

    event: str
    values: Any
    id: str = ""

    def encode(self) -> bytes:
        text = json.dumps(self.values, ensure_ascii=False, separators=(",", ":"))
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.event}\ndata: {text}\n\n".encode("utf-8", "backslashreplace")


def stream(
    request: RequestContext, events: AsyncIterator[ServerSentEvent | None]
) -> StreamingResponse:
    """A response that sends events as they come; None is a heartbeat.

    A stream counts as one follower and needs no thread. The count drops when the client disconnects,
    the stream ends or the server closes.
    """
    context = request.context
    if context.followers >= context.settings.max_followers:
        raise HttpRefusal(
            f"{context.followers:,} streams are open, which is the limit.",
            fix="Close one, or try again in 5 s.",
            code="too-many-followers",
            headers={"Retry-After": "5"},
        )
    context.followers += 1
    return _Stream(_encoded(context, events), context)


async def _encoded(
    context: AppContext, events: AsyncIterator[ServerSentEvent | None]
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    try:
        async for event in events:
            if context.closing.is_set():
                return
            yield HEARTBEAT if event is None else event.encode()
    except UserError as error:
        problem = {"code": error.code, "detail": error.problem, "fix": error.fix}
        yield ServerSentEvent(event="problem", values=problem).encode()


class _Stream(StreamingResponse):
    """Decreases the count of followers when the stream ends."""

    def __init__(self, content: AsyncIterator[bytes], context: AppContext) -> None:
        super().__init__(content, media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})
        self._context = context
        self._content = content

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._context.followers -= 1
            with anyio.CancelScope(shield=True):
                close = getattr(self._content, "aclose", None)
                if close is not None:
                    await close()
