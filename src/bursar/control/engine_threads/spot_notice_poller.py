"""A thread that polls one provider for interruption notices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bursar.background import BackgroundThread
from bursar.model.engine_report import EngineReport
from bursar.ports import InterruptionSource

POLL_SECONDS = 5.0
"""Providers recommend at least this rate: the shortest notice is half a minute."""


class SpotNoticePoller(BackgroundThread):
    """Its ``fault`` is the error of the last poll."""

    def __init__(
        self, source: InterruptionSource, report: Callable[[Sequence[EngineReport]], None]
    ) -> None:
        super().__init__("bursar-spot-notices", self._poll_once, POLL_SECONDS)
        self._source = source
        self._report = report

    def _poll_once(self) -> None:
        if notices := self._source.poll():
            self._report(notices)
