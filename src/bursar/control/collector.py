"""Python's cycle collector while a long log is billed.

Billing a month makes a million small values that form no cycle, and reports of it some hundreds of thousands
that stay. The collector looks at all of them again and again: that was a tenth of the time of billing, and a
third of the time of the reports. A server has it look rarely for as long as it runs (``api/server.py``); this
is for whoever bills before a server runs, or without one. It is not switched off, because other threads may
leave cycles behind meanwhile, and blocks may lie within each other, because a server may bill its log anew.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

YOUNG = 100_000
"""New values between two looks at them, while somebody counts: as many as in a server."""


class _Counting:
    """How many threads are counting: the first one changes the collector, the last one changes it back."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._threads = 0
        self._before = gc.get_threshold()

    def begin(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._before = gc.get_threshold()
                gc.set_threshold(YOUNG, *self._before[1:])

    def end(self) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                gc.set_threshold(*self._before)


_COUNTING = _Counting()


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for cycles seldom until the end of the block, and of all others like it; then as before."""
    _COUNTING.begin()
    try:
        yield
    finally:
        _COUNTING.end()
