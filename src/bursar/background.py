"""Threads that repeat one step until they are closed, and survive its errors."""

from __future__ import annotations

import threading
from collections.abc import Callable

from bursar.model.errors import EngineFault

LONGEST_PAUSE_SECONDS = 5.0


class BackgroundThread:
    """Calls ``step`` in a loop, with a pause after each call and a longer one after an error."""

    def __init__(self, name: str, step: Callable[[], None], pause_seconds: float = 0.0) -> None:
        self._step = step
        self._pause_seconds = pause_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.fault = ""
        """Why the last call failed; empty after one that did not."""

    def start(self) -> None:
        self._thread.start()

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    def pause(self, seconds: float) -> bool:
        """Waits, for steps that retry by themselves; returns true if the thread must end."""
        return self._closing.wait(seconds)

    def stop(self) -> None:
        """Requests the end without waiting; the caller must wake a step that blocks."""
        self._closing.set()

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Stops the thread and waits until the current step has returned."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._closing.is_set():
            pause_seconds = self._pause_seconds
            try:
                self._step()
                self.fault = ""
            except Exception as error:
                # Catch every error, even a bug: otherwise the thread would end for good.
                fault = fault_of(error)
                self.fault = str(fault)
                retry_seconds = min(fault.retry_after_seconds, LONGEST_PAUSE_SECONDS)
                pause_seconds = max(pause_seconds, retry_seconds)
            if pause_seconds:
                self._closing.wait(pause_seconds)


def fault_of(error: Exception) -> EngineFault:
    """Converts any error to one that is retried, even a full disk or a bug."""
    if isinstance(error, EngineFault):
        return error
    source = "the engine's files" if isinstance(error, OSError) else type(error).__name__
    return EngineFault(f"{source}: {error}", retry_after_seconds=1.0)
