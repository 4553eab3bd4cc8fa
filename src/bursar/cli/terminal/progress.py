"""A bar on standard error: how far the runs are, how fast, and how long they will still take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from bursar.cli.terminal.ctrl_c import Interrupt

WIDTH = 30
SECONDS_BETWEEN_FRAMES = 0.1


class ProgressStage(Protocol):
    """How far one run is."""

    @property
    def jobs_over(self) -> int: ...

    @property
    def jobs_in_all(self) -> int | None: ...


class ProgressBar:
    """Draws when it is shown, and passes on whether the user wants to stop."""

    def __init__(self, interrupt: Interrupt, *, shown: bool) -> None:
        self._interrupt = interrupt
        self._shown = shown
        self._began_s = monotonic()
        self._next_s = 0.0
        self._drawn = 0

    def draw(self, stages: Sequence[ProgressStage | None]) -> bool:
        """Show how far all runs are together; true asks them to stop."""
        now_s = monotonic()
        if self._shown and now_s >= self._next_s:
            self._next_s = now_s + SECONDS_BETWEEN_FRAMES
            self._write(frame(stages, now_s - self._began_s))
        return self._interrupt.asked

    def clear(self) -> None:
        """Leave the line as if nothing had been there."""
        if self._drawn:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = len(text)


class RunBar(ProgressBar):
    """For one run."""

    def saw(self, progress: ProgressStage) -> bool:
        return self.draw([progress])


class RunsBar(ProgressBar):
    """For several runs at once."""

    def saw(self, progress: Sequence[ProgressStage | None]) -> bool:
        return self.draw(progress)


def frame(stages: Sequence[ProgressStage | None], elapsed_s: float) -> str:
    """One picture of the bar. A run that has said nothing yet is taken to be as long as the others."""
    told = [stage for stage in stages if stage is not None]
    over = sum(stage.jobs_over for stage in told)
    rate = over / elapsed_s if elapsed_s > 0 else 0.0
    totals = [stage.jobs_in_all for stage in told]
    known = [total for total in totals if total is not None]
    if not known or len(known) < len(totals):
        return f"{over:,} jobs  {rate:,.0f} jobs/s"
    in_all = sum(known) * len(stages) // len(told)
    part = min(1.0, over / in_all) if in_all else 1.0
    filled = round(part * WIDTH)
    left = f"  ETA {eta((in_all - over) / rate)}" if rate else ""
    bar = "#" * filled + "." * (WIDTH - filled)
    return f"[{bar}] {part:4.0%}  {over:,} of {in_all:,} jobs  {rate:,.0f} jobs/s{left}"


def eta(seconds: float) -> str:
    """``1:05``, or with hours ``2:00:00``."""
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
