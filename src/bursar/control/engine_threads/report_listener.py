"""A thread that waits for an engine's reports and passes them to the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bursar.background import BackgroundThread
from bursar.model.engine_report import EngineReport
from bursar.ports import Engine

WAIT_SECONDS = 0.5


class ReportListener(BackgroundThread):
    """Its ``fault`` is the last error in reading the engine's reports."""

    def __init__(self, engine: Engine, report: Callable[[Sequence[EngineReport]], None]) -> None:
        super().__init__("bursar-reports", self._read_once)
        self.engine = engine
        self._report = report

    def _read_once(self) -> None:
        if reports := self.engine.reports(timeout_seconds=WAIT_SECONDS):
            self._report(reports)
