"""Queues reports for the control plane: ends are reported at once, starts are batched."""

from __future__ import annotations

import threading
import time

from bursar.model.engine_report import EngineReport
from bursar.model.event import AttemptStarted

START_BATCH_SECONDS = 0.3
"""How long starts wait for other reports: nothing depends on them, and a batch is one transaction."""


class ReportBatch:
    """The queue of reports."""

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

    def take(self, *, flush: bool) -> list[EngineReport]:
        """The reports that are due; all reports if ``flush``."""
        with self._changed:
            now = time.monotonic()
            if not self._queue or not (flush or now >= self._due_at()):
                return []
            reports, self._queue = self._queue, []
            return reports

    def _due_at(self) -> float:
        if all(isinstance(report, AttemptStarted) for report in self._queue):
            return self._queued_at + START_BATCH_SECONDS
        return self._queued_at

    def wait(self, seconds: float) -> None:
        """Wait for the next report, at most this long."""
        with self._changed:
            self._changed.wait(seconds)
