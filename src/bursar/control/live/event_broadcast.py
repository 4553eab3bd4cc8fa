"""Who follows the log as it grows. Followers are bounded: a slow one misses events and is told so."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from bursar.ports import Recorded

KEPT = 10_000


class Subscription:
    """One follower's events since it last asked. Thread-safe; ``notify`` wakes an event loop."""

    def __init__(self, board: EventBroadcast) -> None:
        self._board = board
        self._events: deque[Recorded] = deque(maxlen=KEPT)
        self._ready = threading.Condition()
        self.missed = 0
        """How many events were dropped because nobody took them."""

    def put(self, recorded: Sequence[Recorded]) -> None:
        with self._ready:
            self.missed += max(0, len(self._events) + len(recorded) - KEPT)
            self._events.extend(recorded)
            self._ready.notify_all()

    def next(self, timeout: float) -> list[Recorded]:
        """What happened since the last call; waits so long for the first."""
        with self._ready:
            if not self._events and timeout > 0:
                self._ready.wait(timeout)
            found = list(self._events)
            self._events.clear()
            return found

    def close(self) -> None:
        self._board.remove(self)


class EventBroadcast:
    """All followers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[Subscription] = []

    def follow(self) -> Subscription:
        one = Subscription(self)
        with self._lock:
            self._all.append(one)
        return one

    def remove(self, one: Subscription) -> None:
        with self._lock:
            if one in self._all:
                self._all.remove(one)

    def publish(self, recorded: Sequence[Recorded]) -> None:
        with self._lock:
            followers = list(self._all)
        for one in followers:
            one.put(recorded)
