"""Fans out the events of the log to all HTTP streams; the log is read once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from bursar.api import wire
from bursar.api.http.request import AppContext
from bursar.api.wire import views
from bursar.model.event import JobSubmitted
from bursar.ports import Recorded, StoreReader

MAX_BUFFERED = 1_000
"""Events buffered for a slow follower; then the oldest are dropped and counted."""
MAX_CACHED_QUEUES = 50_000
POLL_SECONDS = 0.5
BATCH_SIZE = 2_000


@dataclass(eq=False, slots=True, kw_only=True)
class Follower:
    """One open stream, and the events buffered for it."""

    visible: frozenset[str] | None
    buffer: deque[wire.JobEventView] = field(default_factory=lambda: deque(maxlen=MAX_BUFFERED))
    has_events: asyncio.Event = field(default_factory=asyncio.Event)
    missed: int = 0

    def offer(self, event: wire.JobEventView) -> None:
        if self.visible is not None and event.get("queue", "") not in self.visible:
            return
        if len(self.buffer) == MAX_BUFFERED:
            self.missed += 1
        self.buffer.append(event)
        self.has_events.set()

    def take(self) -> tuple[list[wire.JobEventView], int]:
        """Empties the buffer; returns its events and how many were dropped before them."""
        events, missed = list(self.buffer), self.missed
        self.buffer.clear()
        self.has_events.clear()
        self.missed = 0
        return events, missed


class EventHub:
    """Reads new events of the log on one thread while there are followers."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
        self._followers: set[Follower] = set()
        self._reader: asyncio.Task[None] | None = None
        self._queues: OrderedDict[str, str] = OrderedDict()

    def join(self, visible: frozenset[str] | None) -> Follower:
        """Adds a follower; it gets every event from now on that it may see."""
        follower = Follower(visible=visible)
        self._followers.add(follower)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._run())
        return follower

    def leave(self, follower: Follower) -> None:
        self._followers.discard(follower)

    async def close(self) -> None:
        """Stops reading. Streams end by the ``closing`` event of the context."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader

    async def _run(self) -> None:
        context = self._context
        subscription = context.plane.follow()
        try:
            while self._followers and not context.closing.is_set():
                recorded = await asyncio.to_thread(subscription.next, POLL_SECONDS)
                if recorded:
                    for event in await context.run_blocking(
                        self.job_events, context.plane.reader, recorded
                    ):
                        for follower in list(self._followers):
                            follower.offer(event)
        finally:
            subscription.close()

    def job_events(
        self, reader: StoreReader, recorded: Iterable[Recorded]
    ) -> list[wire.JobEventView]:
        """Events of jobs, each with its job's queue, which decides who may see it."""
        events = []
        for one in recorded:
            job_id = getattr(one.event, "job_id", None)
            if job_id is not None:
                event = views.job_event(one, self._queue_of(job_id, one, reader))
                if event is not None:
                    events.append(event)
        return events

    def _queue_of(self, job_id: str, recorded: Recorded, reader: StoreReader) -> str:
        queue = self._queues.get(job_id)
        if queue is None:
            if isinstance(recorded.event, JobSubmitted):
                queue = recorded.event.spec.queue
            else:
                row = reader.job(job_id)
                queue = row.queue if row is not None else ""
            self._queues[job_id] = queue
            while len(self._queues) > MAX_CACHED_QUEUES:
                self._queues.popitem(last=False)
        return queue
