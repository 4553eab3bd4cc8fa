"""Stop signals set a flag and run callbacks; the job exits when its work is saved.

The handler only stores a few values and writes one byte: it takes no lock, so it may interrupt anything.
Callbacks run on a background thread that waits for that byte, even while the main thread is inside a long
call in which no Python handler can run.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from bursar.sdk.status_reports import now_ms

PREEMPTED_EXIT = 85
"""Exit code of a job that was stopped, has saved what it could and should be run again."""

GRACE = "BURSAR_GRACE_SECONDS"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
_CLOSING = 0


class Preempted(SystemExit):
    """Exits the job with ``PREEMPTED_EXIT``."""

    def __init__(self) -> None:
        super().__init__(PREEMPTED_EXIT)


class StopSignals:
    """Handles stop signals between ``listen`` and ``close``. The flag persists after that."""

    def __init__(self, signals: Iterable[int] = STOP_SIGNALS) -> None:
        self.is_requested = False
        self.signum = int(signal.SIGTERM)
        """The signal that requested the stop."""
        self.requested_at_ms = 0
        self._signals = tuple(signals)
        self._requested_at = 0.0
        self._grace_seconds = _seconds(os.environ.get(GRACE))
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._has_called = False
        self._previous_handlers: dict[int, Any] = {}
        self._previous_wakeup_fd = -1
        self._pipe: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def listen(self) -> bool:
        """Install the handlers; false outside the main thread, where Python does not allow it."""
        if threading.current_thread() is not threading.main_thread():
            return False
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        self._pipe = (read_end, write_end)
        self._thread = threading.Thread(target=self._wait, name="bursar-stop", daemon=True)
        self._thread.start()
        for signum in self._signals:
            self._previous_handlers[signum] = signal.signal(signum, self._handle)
        self._previous_wakeup_fd = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        if self._previous_wakeup_fd != -1:
            signal.set_wakeup_fd(self._previous_wakeup_fd, warn_on_full_buffer=False)
        _LISTENING.append(self)
        return True

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once on a stop; immediately if it was requested before."""
        with self._lock:
            if not self._has_called:
                self._callbacks.append(callback)
                return
        callback()

    @property
    def grace_left_seconds(self) -> float | None:
        """None before a stop, or if the grace period is not known."""
        if self._grace_seconds is None or not self.is_requested:
            return None
        return self._requested_at + self._grace_seconds - time.monotonic()

    @property
    def ends_at_ms(self) -> int | None:
        """When the grace period ends; None as above."""
        if self._grace_seconds is None or not self.is_requested:
            return None
        return self.requested_at_ms + round(self._grace_seconds * 1_000)

    def close(self) -> None:
        """Restore the previous handlers, except where ours was replaced in the meantime."""
        if self._pipe is None or self._thread is None:
            return
        self._restore_handlers()
        _LISTENING.remove(self)
        os.write(self._pipe[1], bytes([_CLOSING]))
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for fd in self._pipe:
            os.close(fd)
        self._pipe = self._thread = None

    def _restore_handlers(self) -> None:
        for signum, before in self._previous_handlers.items():
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, signal.SIG_DFL if before is None else before)
        if self._previous_wakeup_fd == -1 and self._pipe is not None:
            other = signal.set_wakeup_fd(-1)
            if other not in (-1, self._pipe[1]):
                signal.set_wakeup_fd(other)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del frame
        self._flag(signum)
        if self._pipe is not None:
            try:
                os.write(self._pipe[1], bytes([signum]))
            except OSError:
                return

    def _flag(self, signum: int) -> None:
        if not self.is_requested:
            self.signum = signum
            self._requested_at = time.monotonic()
            self.requested_at_ms = now_ms()
            self.is_requested = True

    def _wait(self) -> None:
        """The background thread. It reads signal numbers, also of signals that are not ours."""
        assert self._pipe is not None
        read_end = self._pipe[0]
        while received := os.read(read_end, 64):
            ours = [signum for signum in received if signum in self._signals]
            if ours:
                self._flag(ours[0])
                self._run_callbacks()
            if _CLOSING in received:
                return

    def _run_callbacks(self) -> None:
        with self._lock:
            if self._has_called:
                return
            self._has_called = True
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            callback()


_LISTENING: list[StopSignals] = []


_mask = threading.local()


def _before_fork() -> None:
    """Block signals: one between the fork and the child's first Python line would be lost."""
    signals = {signum for listener in _LISTENING for signum in listener._signals}
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def _after_fork_in_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _after_fork_in_child() -> None:
    """Restore the handlers: a data loader's worker saves nothing and must end on a signal."""
    for listener in _LISTENING:
        listener._restore_handlers()
    _LISTENING.clear()
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
)


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
