"""Server-sent events: written out, kept alive, and never allowed to pile up."""

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
class Sent:
    """One event as it goes out. ``id`` is what the client names to go on after it."""

    event: str
    values: Any
    id: str = ""

    def encode(self) -> bytes:
        text = json.dumps(self.values, ensure_ascii=False, separators=(",", ":"))
        head = f"id: {self.id}\n" if self.id else ""
        return f"{head}event: {self.event}\ndata: {text}\n\n".encode("utf-8", "backslashreplace")


def stream(call: RequestContext, events: AsyncIterator[Sent | None]) -> StreamingResponse:
    """The answer that sends events as they come. None among them is a sign of life.

    A follower costs a place among the followers and no thread; the place is free again when the
    client goes, the stream ends or the server closes.
    """
    desk = call.desk
    if desk.followers >= desk.settings.max_followers:
        raise HttpRefusal(
            f"{desk.followers:,} streams are open, as many as the server keeps.",
            fix="Close one, or ask again later.",
            code="too-many-followers",
            headers={"Retry-After": "5"},
        )
    desk.followers += 1
    return _Stream(_encoded(desk, events), desk)


async def _encoded(desk: AppContext, events: AsyncIterator[Sent | None]) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    try:
        async for event in events:
            if desk.closing.is_set():
                return
            yield HEARTBEAT if event is None else event.encode()
    except UserError as error:
        told = {"code": error.code, "detail": error.problem, "fix": error.fix}
        yield Sent(event="problem", values=told).encode()


class _Stream(StreamingResponse):
    """Gives the follower's place back however the stream ends."""

    def __init__(self, content: AsyncIterator[bytes], desk: AppContext) -> None:
        super().__init__(content, media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})
        self._desk = desk
        self._content = content

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._desk.followers -= 1
            with anyio.CancelScope(shield=True):
                close = getattr(self._content, "aclose", None)
                if close is not None:
                    await close()
