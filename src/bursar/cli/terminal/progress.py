"""A progress bar of a run that Ctrl-C stops: fraction done, rate and time remaining."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Protocol

WIDTH = 30
SECONDS_BETWEEN_FRAMES = 0.1


class ProgressStage(Protocol):
    """The progress of one run."""

    @property
    def jobs_over(self) -> int: ...

    @property
    def jobs_in_all(self) -> int | None: ...


class ProgressBar:
    """Draws a bar, and reports whether the user has requested a stop."""

    def __init__(self, *, shown: bool) -> None:
        self._stop_requested = False
        self._shown = shown
        self._began_s = monotonic()
        self._next_s = 0.0
        self._width = 0

    def draw(self, stages: Sequence[ProgressStage | None]) -> bool:
        """Show the progress of all runs together; returns true to stop them."""
        now_s = monotonic()
        if self._shown and now_s >= self._next_s:
            self._next_s = now_s + SECONDS_BETWEEN_FRAMES
            self._write(frame(stages, now_s - self._began_s))
        return self._stop_requested

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """The first Ctrl-C requests a stop; the second ends the command."""
        if self._stop_requested:
            raise KeyboardInterrupt
        self._stop_requested = True

    def clear(self) -> None:
        """Erase the bar."""
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[ProgressBar]:
    """Within the block Ctrl-C stops the run between two steps, so that its results are kept."""
    bar = ProgressBar(shown=shown)
    before = signal.signal(signal.SIGINT, bar.interrupt)
    try:
        yield bar
        bar.clear()
    finally:
        signal.signal(signal.SIGINT, before)


def frame(stages: Sequence[ProgressStage | None], elapsed_s: float) -> str:
    """The bar as text. A run without progress so far counts as long as the others."""
    known = [stage for stage in stages if stage is not None]
    over = sum(stage.jobs_over for stage in known)
    rate = over / elapsed_s if elapsed_s > 0 else 0.0
    totals = [stage.jobs_in_all for stage in known if stage.jobs_in_all is not None]
    if not totals or len(totals) < len(known):
        return f"{over:,} jobs  {rate:,.0f} jobs/s"
    in_all = sum(totals) * len(stages) // len(known)
    fraction = min(1.0, over / in_all) if in_all else 1.0
    filled = round(fraction * WIDTH)
    remaining = f"  ETA {eta((in_all - over) / rate)}" if rate else ""
    bar = "#" * filled + "." * (WIDTH - filled)
    return f"[{bar}] {fraction:4.0%}  {over:,} of {in_all:,} jobs  {rate:,.0f} jobs/s{remaining}"


def eta(seconds: float) -> str:
    """``1:05``, or with hours ``2:00:00``."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
