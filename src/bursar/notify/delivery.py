"""Carries messages to one channel: in the order of the log, each at least once, and never in a hurry.

A delivery records in a file how far it has come, so that what happened while nobody was up is told by the
next one, unless it is old news by then. One that cannot deliver tries again, tells the operator, and goes on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bursar.model.errors import EngineFault
from bursar.model.jobs.job import OVER, JobState
from bursar.model.notification import Channel, Notification
from bursar.model.units import HOUR_MS
from bursar.notify.occasions import Occasions
from bursar.ports import JobFilter, Notifier, StoreReader

TRIES = 6
LONGEST_PAUSE_SECONDS = 60.0
OLD_NEWS_MS = HOUR_MS
LOOK_SECONDS = 1.0
EVENTS_AT_ONCE = 1_000
JOBS_KNOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRound:
    """What a delivery needs besides its channel."""

    reader: StoreReader
    leads: Callable[[], bool]
    """Only the leader tells; others would tell the same."""
    last_sequence: Callable[[], int]
    parents: Callable[[], dict[str, str | None]]
    now_ms: Callable[[], int]
    tell: Callable[[str], None]
    folder: Path


class Delivery(threading.Thread):
    """One channel's thread."""

    def __init__(self, channel: Channel, notifier: Notifier, round_: DeliveryRound) -> None:
        super().__init__(name=f"bursar-notify-{channel.name}", daemon=True)
        self._channel = channel
        self._notifier = notifier
        self._round = round_
        self._occasions = Occasions(round_.reader.job)
        self._file = round_.folder / f"notified-{channel.name}"
        self._over = threading.Event()
        self.sent = self.failed = 0

    def close(self) -> None:
        """Stop at once; what is not delivered is delivered by the next one."""
        self._over.set()
        if self.is_alive():
            self.join(timeout=5)

    def run(self) -> None:
        at = self._begin()
        live = frozenset(JobState) - OVER
        self._occasions.begin(self._round.reader.jobs(JobFilter(states=live, limit=JOBS_KNOWN)))
        while not self._over.wait(LOOK_SECONDS):
            if self._round.leads():
                at = self.look(at)
            else:
                at = self._begin()

    def _begin(self) -> int:
        """Where the last delivery stopped; without one, at the end of the log."""
        try:
            return min(int(self._file.read_text(encoding="ascii")), self._round.last_sequence())
        except (OSError, ValueError):
            return self._round.last_sequence()

    def look(self, at: int) -> int:
        """Tell what has happened since, or the first part of it; how far that is."""
        reached = at
        for recorded in [*self._round.reader.events(after=at, limit=EVENTS_AT_ONCE)]:
            for message in self._occasions.messages(recorded):
                if self._concerns(message) and not self._deliver(message):
                    self._keep(reached)
                    return reached
            reached = recorded.sequence
        if reached != at:
            self._keep(reached)
        return reached

    def _concerns(self, message: Notification) -> bool:
        if message.occasion not in self._channel.on:
            return False
        if self._round.now_ms() - message.at_ms > OLD_NEWS_MS:
            return False
        wanted, parents = self._channel.tenants, self._round.parents()
        at: str | None = message.tenant
        while wanted and at is not None:
            if at in wanted:
                return True
            at = parents.get(at)
        return not wanted

    def _deliver(self, message: Notification) -> bool:
        """Whether to go on: delivered or given up; not when the program ends meanwhile."""
        problem = ""
        for number in range(1, TRIES + 1):
            try:
                self._notifier.send(message)
            except EngineFault as fault:
                problem = str(fault)
                if not fault.retry_after_seconds or number == TRIES:
                    break
                pause = max(fault.retry_after_seconds, 2.0 ** (number - 1))
                if self._over.wait(min(LONGEST_PAUSE_SECONDS, pause)):
                    return False
            else:
                self.sent += 1
                return True
        self.failed += 1
        self._round.tell(
            f"the channel {self._channel.name} was not told that {message.title}: {problem}. "
            "'bursar notify test' tries a channel."
        )
        return True

    def _keep(self, reached: int) -> None:
        """How far we have come; a torn file would only mean that something is told twice."""
        aside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            aside.write_text(str(reached), encoding="ascii")
            aside.replace(self._file)
        except OSError as error:
            self._round.tell(f"{self._file} cannot be written: {error.strerror or error}")
