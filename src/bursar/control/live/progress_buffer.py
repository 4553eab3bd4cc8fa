"""Buffers the progress that jobs report until it is written to the store.

Jobs report progress every few seconds, and no decision depends on it. So it makes no events (thousands of
jobs would write millions a day) and normally no transactions: the next commit takes it along. Only when
there is none for a while, progress is written by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bursar.model.engine_report import Progressed

MAX_WAIT_SECONDS = 2.0


class ProgressBuffer:
    """The newest unwritten progress of each job. Engines report again what a crash loses."""

    def __init__(self) -> None:
        self._unwritten: dict[str, Progressed] = {}
        self._since_seconds: float | None = None

    def add(self, progress: Mapping[str, Progressed], now_seconds: float) -> None:
        """Buffer reports, by job."""
        if progress and self._since_seconds is None:
            self._since_seconds = now_seconds
        self._unwritten.update(progress)

    def unwritten(self) -> tuple[Progressed, ...]:
        """What the next transaction should write, by job."""
        return tuple(one for _, one in sorted(self._unwritten.items()))

    def is_due(self, now_seconds: float) -> bool:
        """Whether the oldest entry has waited long enough for another commit."""
        since = self._since_seconds
        return since is not None and now_seconds - since >= MAX_WAIT_SECONDS

    def written(self, rows: Iterable[Progressed]) -> None:
        """Drop what is in the store now, unless a newer report has arrived."""
        for one in rows:
            if self._unwritten.get(one.job_id) is one:
                del self._unwritten[one.job_id]
        if not self._unwritten:
            self._since_seconds = None
