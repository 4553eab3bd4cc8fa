"""Runs Python's cycle collector rarely while many values are made that form no cycles.

By default it looks for cycles after every 700 new values. Billing a month makes a million small values,
and reports some hundreds of thousands that stay: looking at them again and again was a tenth of the time
of billing and a third of that of reports. Of a simulated run it was a quarter, of reading a trace a
third. It is never switched off: other threads, and whoever follows a run, may leave cycles behind.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

YOUNG = 100_000
"""New values between two collections: as many as in a server (``api/server.py``)."""

YOUNG_IN_A_RUN = 500_000


class _Blocks:
    """Blocks that are open in any thread: the first changes the threshold, the last restores it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open = 0
        self._before = gc.get_threshold()

    def begin(self, young: int) -> None:
        with self._lock:
            self._open += 1
            if self._open == 1:
                self._before = gc.get_threshold()
                gc.set_threshold(young, *self._before[1:])

    def end(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                gc.set_threshold(*self._before)


_BLOCKS = _Blocks()


@contextmanager
def rare_gc(young: int = YOUNG) -> Iterator[None]:
    """Collects rarely until the end of the block, and of all others like it."""
    _BLOCKS.begin(young)
    try:
        yield
    finally:
        _BLOCKS.end()


@contextmanager
def rare_gc_in_a_run() -> Iterator[None]:
    """Collects even more rarely, and until the end of the block nothing that was there before it."""
    with rare_gc(YOUNG_IN_A_RUN):
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()
