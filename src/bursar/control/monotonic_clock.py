"""Time that never steps back and never jumps, whatever is done to the machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable

NANOSECONDS_PER_MS = 1_000_000


class MonotonicClock:
    """The wall clock at the start, and from then on what really passed.

    ``not_before_ms`` is the last moment in the log: should the machine's clock have been set back
    since, time goes on from there. A run limit therefore neither expires an hour early nor waits an
    hour more because somebody set a clock.
    """

    def __init__(
        self,
        not_before_ms: int = 0,
        *,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // NANOSECONDS_PER_MS,
        passed_ms: Callable[[], int] = lambda: time.monotonic_ns() // NANOSECONDS_PER_MS,
    ) -> None:
        self._passed_ms = passed_ms
        self._offset_ms = max(wall_ms(), not_before_ms) - passed_ms()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._offset_ms + self._passed_ms()
