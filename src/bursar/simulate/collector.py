"""Python's cycle collector while a trace is read and while a run goes.

A trace is many values that stay, and none of them forms a cycle: looking at them again and again while
they are made was a third of the time of reading. A run makes and drops a few dozen small values for each
job. They go when nobody refers to them any more, and the collector, which by default looks for cycles
after every 700 new values, finds nothing: that was a quarter of the time of a run. Here it looks far less
often, and not at all at what was there before, such as the trace of a run: cycles that were dropped before
wait until the block ends. It is not switched off: whoever follows a run may leave cycles behind.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 500_000
"""New values between two looks at them."""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for cycles seldom until the end of the block; then as before."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
