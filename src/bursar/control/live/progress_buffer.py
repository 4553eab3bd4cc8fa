"""How far jobs have come, from when they say it until it is written down.

Jobs tell it every few seconds, and nothing is decided by it. So it makes no events, of which thousands of
jobs would write millions a day, and no transactions of its own: it goes along with whatever is committed
next, all jobs together, and alone only when nothing else was committed for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bursar.model.engine_report import Progressed

WRITTEN_AFTER_SECONDS = 2.0


class ProgressBuffer:
    """Of each job the newest that is not written yet. What is lost here the engines say again."""

    def __init__(self) -> None:
        self._unwritten: dict[str, Progressed] = {}
        self._since_seconds: float | None = None

    def note(self, told: Mapping[str, Progressed], now_seconds: float) -> None:
        """Take what jobs have said."""
        if told and self._since_seconds is None:
            self._since_seconds = now_seconds
        self._unwritten.update(told)

    def unwritten(self) -> tuple[Progressed, ...]:
        """What the next transaction should write, by job."""
        return tuple(one for _, one in sorted(self._unwritten.items()))

    def is_due(self, now_seconds: float) -> bool:
        """Whether it has waited long enough for others to write with."""
        since = self._since_seconds
        return since is not None and now_seconds - since >= WRITTEN_AFTER_SECONDS

    def written(self, rows: Iterable[Progressed]) -> None:
        """These are in the store; what was said meanwhile is not."""
        for one in rows:
            if self._unwritten.get(one.job_id) is one:
                del self._unwritten[one.job_id]
        if not self._unwritten:
            self._since_seconds = None
