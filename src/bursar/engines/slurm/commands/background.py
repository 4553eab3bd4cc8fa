"""Work beside the thread that wants it done: asking Slurm takes long, above all when Slurm is busy."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundTask:
    """One thing that is done now and then, never twice at the same time. Nobody waits for it."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self) -> bool:
        """False while it is still being done. What went wrong with the last one is raised here."""
        if self._thread is not None and self._thread.is_alive():
            return False
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._thread = threading.Thread(target=self._do, name=self._name, daemon=True)
        self._thread.start()
        return True

    def finish(self, patience_seconds: float) -> None:
        """Wait for what is being done, if anything is."""
        if self._thread is not None:
            self._thread.join(patience_seconds)

    def _do(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error
