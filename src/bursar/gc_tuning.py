"""Runs Python's garbage collector rarely while many objects without cycles are created.

By default it searches for cycles after every 700 new objects. Collections took a tenth of the time of
billing a month (a million objects), a third of reports, a quarter of a simulated run and a third of reading
a trace. It is never switched off, because other threads and listeners may create cycles.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

YOUNG = 100_000
"""New objects between two collections, as in the server (``api/server.py``)."""

YOUNG_IN_A_RUN = 500_000


class _OpenBlocks:
    """Counts open blocks of all threads: the first changes the threshold, the last restores it."""

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


_OPEN_BLOCKS = _OpenBlocks()


@contextmanager
def rare_gc(young: int = YOUNG) -> Iterator[None]:
    """Collects rarely until this block and all overlapping ones have ended."""
    _OPEN_BLOCKS.begin(young)
    try:
        yield
    finally:
        _OPEN_BLOCKS.end()


@contextmanager
def rare_gc_in_a_run() -> Iterator[None]:
    """Collects even more rarely, and skips objects created before the block."""
    with rare_gc(YOUNG_IN_A_RUN):
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()
