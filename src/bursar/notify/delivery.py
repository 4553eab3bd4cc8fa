"""Delivers messages to one channel: in log order, each at least once.

The position in the log is stored in a file. After a restart, events since then are delivered unless they are
too old. A message that cannot be delivered is retried, then reported to the operator and dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bursar.background import BackgroundThread
from bursar.model.errors import EngineFault
from bursar.model.jobs.job import OVER, JobState
from bursar.model.notification import Channel, Notification
from bursar.model.units import HOUR_MS
from bursar.notify.messages import MessageBuilder
from bursar.ports import JobFilter, Notifier, StoreReader

MAX_ATTEMPTS = 6
MAX_BACKOFF_SECONDS = 60.0
MAX_AGE_MS = HOUR_MS
POLL_SECONDS = 1.0
EVENTS_PER_BATCH = 1_000
MAX_INITIAL_JOBS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryContext:
    """What the deliveries of all channels share."""

    reader: StoreReader
    is_leader: Callable[[], bool]
    """Only the leader sends; other processes would send duplicates."""
    last_sequence: Callable[[], int]
    parents: Callable[[], dict[str, str | None]]
    now_ms: Callable[[], int]
    report: Callable[[str], None]
    """Reports a problem to the operator."""
    folder: Path


class Delivery(BackgroundThread):
    """The background thread of one channel."""

    def __init__(self, channel: Channel, notifier: Notifier, context: DeliveryContext) -> None:
        super().__init__(f"bursar-notify-{channel.name}", self._deliver_new, POLL_SECONDS)
        self._channel = channel
        self._notifier = notifier
        self._context = context
        self._builder = MessageBuilder(context.reader.job)
        self._position_file = context.folder / f"notified-{channel.name}"
        self._sequence: int | None = None

    def _deliver_new(self) -> None:
        """Delivers what is new; when stopped, the next process delivers the remaining messages."""
        try:
            if self._sequence is None:
                self._sequence = self._begin()
            elif self._context.is_leader():
                self.deliver_after(self._sequence)
            else:
                self._sequence = self._start_sequence()
        except Exception as error:
            if not self.fault:  # that of the last call: each outage is reported once
                self._context.report(
                    f"channel {self._channel.name}: {error}. Messages wait until it works again."
                )
            raise

    def _begin(self) -> int:
        """Jobs are read after the position, so that each start is among them or in the log."""
        sequence = self._start_sequence()
        live = frozenset(JobState) - OVER
        running = self._context.reader.jobs(JobFilter(states=live, limit=MAX_INITIAL_JOBS))
        self._builder.add_running(running)
        return sequence

    def _start_sequence(self) -> int:
        """The stored position; the end of the log if none is stored."""
        last_sequence = self._context.last_sequence()
        try:
            return min(int(self._position_file.read_text(encoding="ascii")), last_sequence)
        except (OSError, ValueError):
            return last_sequence

    def deliver_after(self, sequence: int) -> int:
        """Delivers one batch of events after ``sequence``; returns the new position.

        An error keeps the position reached, so that what was delivered is not sent again.
        """
        reached = sequence
        try:
            for recorded in [*self._context.reader.events(after=sequence, limit=EVENTS_PER_BATCH)]:
                for message in self._builder.messages(recorded):
                    if self._is_wanted(message) and not self._deliver(message):
                        return reached
                reached = recorded.sequence
        finally:
            if reached != sequence:
                self._sequence = reached
                self._store_position(reached)
        return reached

    def _is_wanted(self, message: Notification) -> bool:
        if message.occasion not in self._channel.on:
            return False
        if self._context.now_ms() - message.at_ms > MAX_AGE_MS:
            return False
        tenants, parents = self._channel.tenants, self._context.parents()
        tenant: str | None = message.tenant
        while tenants and tenant is not None:
            if tenant in tenants:
                return True
            tenant = parents.get(tenant)
        return not tenants

    def _deliver(self, message: Notification) -> bool:
        """Sends a message with retries; false only if closed before it was sent or dropped."""
        problem = ""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                self._notifier.send(message)
            except EngineFault as fault:
                problem = str(fault)
                if not fault.retry_after_seconds or attempt == MAX_ATTEMPTS:
                    break
                backoff = max(fault.retry_after_seconds, 2.0 ** (attempt - 1))
                if self.pause(min(MAX_BACKOFF_SECONDS, backoff)):
                    return False
            else:
                return True
        self._context.report(
            f"channel {self._channel.name}: the message {message.title!r} was not delivered: {problem}. "
            "Check the channel with 'bursar notify test'."
        )
        return True

    def _store_position(self, sequence: int) -> None:
        """Stores the position; a lost write only causes duplicate messages."""
        temporary = self._position_file.with_name(f".{self._position_file.name}.{os.getpid()}")
        try:
            temporary.write_text(str(sequence), encoding="ascii")
            temporary.replace(self._position_file)
        except OSError as error:
            self._context.report(
                f"{self._position_file} cannot be written: {error.strerror or error}"
            )
