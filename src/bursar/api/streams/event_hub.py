"""One follower of the log for all who follow over HTTP: events come once and go out to many."""

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

WAITING_EVENTS = 1_000
"""So many events wait for a slow follower; then the oldest go, and it is told."""
QUEUES_REMEMBERED = 50_000
PATIENCE_SECONDS = 0.5
READ_AT_ONCE = 2_000


@dataclass(eq=False, slots=True, kw_only=True)
class Follower:
    """Who follows, and what waits for him."""

    seen: frozenset[str] | None
    waiting: deque[wire.JobEventView] = field(default_factory=lambda: deque(maxlen=WAITING_EVENTS))
    something: asyncio.Event = field(default_factory=asyncio.Event)
    missed: int = 0

    def offer(self, event: wire.JobEventView) -> None:
        if self.seen is not None and event.get("queue", "") not in self.seen:
            return
        if len(self.waiting) == WAITING_EVENTS:
            self.missed += 1
        self.waiting.append(event)
        self.something.set()

    def take(self) -> tuple[list[wire.JobEventView], int]:
        """What waits, and how much was lost before it."""
        found, missed = list(self.waiting), self.missed
        self.waiting.clear()
        self.something.clear()
        self.missed = 0
        return found, missed


class EventHub:
    """Reads the log's growth while anybody follows, on one thread, and no longer."""

    def __init__(self, desk: AppContext) -> None:
        self._desk = desk
        self._followers: set[Follower] = set()
        self._pump: asyncio.Task[None] | None = None
        self._queues: OrderedDict[str, str] = OrderedDict()

    def join(self, seen: frozenset[str] | None) -> Follower:
        """From now on every event that the follower may see waits for him."""
        follower = Follower(seen=seen)
        self._followers.add(follower)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())
        return follower

    def leave(self, follower: Follower) -> None:
        self._followers.discard(follower)

    async def close(self) -> None:
        """End the reading; followers are told by the desk's closing."""
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump

    async def _run(self) -> None:
        desk = self._desk
        subscription = desk.plane.follow()
        try:
            while self._followers and not desk.closing.is_set():
                recorded = await asyncio.to_thread(subscription.next, PATIENCE_SECONDS)
                if recorded:
                    for event in await desk.read(self.told, desk.plane.reader, recorded):
                        for follower in list(self._followers):
                            follower.offer(event)
        finally:
            subscription.close()

    def told(self, reader: StoreReader, recorded: Iterable[Recorded]) -> list[wire.JobEventView]:
        """Events of jobs, each with its job's queue, by which it is known who may see it."""
        found = []
        for one in recorded:
            job_id = getattr(one.event, "job_id", None)
            if job_id is not None:
                told = views.job_event(one, self._queue_of(job_id, one, reader))
                if told is not None:
                    found.append(told)
        return found

    def _queue_of(self, job_id: str, recorded: Recorded, reader: StoreReader) -> str:
        queue = self._queues.get(job_id)
        if queue is None:
            if isinstance(recorded.event, JobSubmitted):
                queue = recorded.event.spec.queue
            else:
                row = reader.job(job_id)
                queue = row.queue if row is not None else ""
            self._queues[job_id] = queue
            while len(self._queues) > QUEUES_REMEMBERED:
                self._queues.popitem(last=False)
        return queue
