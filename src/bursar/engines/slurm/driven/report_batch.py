"""Reports on their way to the control plane: ends at once, what frees nothing perhaps in company."""

from __future__ import annotations

import threading
import time

from bursar.model.engine_report import EngineReport, TasksStarted

BEGAN_PATIENCE_SECONDS = 0.3
"""How long word that something began may wait for company: it frees nothing."""


class ReportBatch:
    """What is to be told, and when."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[EngineReport] = []
        self._queued_at = 0.0

    def add(self, report: EngineReport) -> None:
        with self._changed:
            if not self._queue:
                self._queued_at = time.monotonic()
            self._queue.append(report)
            self._changed.notify_all()

    def take(self, *, is_last_chance: bool) -> list[EngineReport]:
        """What should be told now; on the last chance everything there is."""
        with self._changed:
            now = time.monotonic()
            if not self._queue or not (is_last_chance or now >= self._tell_at()):
                return []
            found, self._queue = self._queue, []
            return found

    def _tell_at(self) -> float:
        if all(isinstance(one, TasksStarted) for one in self._queue):
            return self._queued_at + BEGAN_PATIENCE_SECONDS
        return self._queued_at

    def wait(self, seconds: float) -> None:
        """Until there is something more to tell, if it does not take longer."""
        with self._changed:
            self._changed.wait(seconds)
