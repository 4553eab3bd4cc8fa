"""Ctrl-C during a run stops it between two steps, so that its results are kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has pressed Ctrl-C."""

    def __init__(self) -> None:
        self.stop_requested = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """The first Ctrl-C requests a stop; the second ends the command."""
        if self.stop_requested:
            raise KeyboardInterrupt
        self.stop_requested = True


@contextmanager
def catch_interrupt() -> Iterator[Interrupt]:
    """Record the first Ctrl-C within the block; a second one ends the command at once."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
