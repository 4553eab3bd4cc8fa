"""Subscriptions to committed events. Each has a bounded buffer and counts what it dropped."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from bursar.model.event import LoggedEvent
from bursar.ports import Recorded

BUFFER_EVENTS = 10_000


class Subscription:
    """One subscriber's buffered events. Thread-safe."""

    def __init__(self, broadcast: EventBroadcast) -> None:
        self._broadcast = broadcast
        self._events: deque[Recorded] = deque(maxlen=BUFFER_EVENTS)
        self._ready = threading.Condition()
        self.missed = 0
        """Events dropped because the buffer was full."""

    def put(self, recorded: Sequence[Recorded]) -> None:
        with self._ready:
            self.missed += max(0, len(self._events) + len(recorded) - BUFFER_EVENTS)
            self._events.extend(recorded)
            self._ready.notify_all()

    def next(self, timeout: float) -> list[Recorded]:
        """Events since the last call; waits up to ``timeout`` seconds for the first."""
        with self._ready:
            if not self._events and timeout > 0:
                self._ready.wait(timeout)
            events = list(self._events)
            self._events.clear()
            return events

    def close(self) -> None:
        self._broadcast.remove(self)


class EventBroadcast:
    """Publishes committed events to all subscriptions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []

    def follow(self) -> Subscription:
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.append(subscription)
        return subscription

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def publish(self, first_sequence: int, events: Sequence[LoggedEvent]) -> None:
        recorded = [
            Recorded(sequence=first_sequence + n, event=event) for n, event in enumerate(events)
        ]
        with self._lock:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.put(recorded)
