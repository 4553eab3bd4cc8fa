"""Runs slow work on a background thread, one call at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundTask:
    """A function that runs on its own thread, never twice at the same time."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self) -> bool:
        """Start the function; False while it is running. Raises the error of the previous run."""
        if self._thread is not None and self._thread.is_alive():
            return False
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        return True

    def finish(self, timeout_seconds: float) -> None:
        """Wait for the current run, if there is one."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self._error = error
