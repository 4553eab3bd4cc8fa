"""Wall-clock time that never steps back or jumps."""

from __future__ import annotations

import time
from collections.abc import Callable

NANOSECONDS_PER_MS = 1_000_000


class MonotonicClock:
    """The wall clock at the start plus the monotonic time since.

    ``not_before_ms`` is the time of the last event in the log: if the machine's clock was set back since,
    time continues from there. A change of the machine's clock never shifts a run limit.
    """

    def __init__(
        self,
        not_before_ms: int = 0,
        *,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // NANOSECONDS_PER_MS,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // NANOSECONDS_PER_MS,
    ) -> None:
        self._monotonic_ms = monotonic_ms
        self._offset_ms = max(wall_ms(), not_before_ms) - monotonic_ms()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._offset_ms + self._monotonic_ms()
