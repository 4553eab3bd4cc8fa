"""Ctrl-C while a run goes: the run is asked to stop between two steps, so that what is done is kept."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user wants to stop."""

    def __init__(self) -> None:
        self.asked = False

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """The first time is a wish; the second is an order."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def noting_interrupts() -> Iterator[Interrupt]:
    """Within the block Ctrl-C is noted; a second one ends the command at once."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt.note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
