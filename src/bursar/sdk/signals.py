"""Signals that ask a job to stop become a flag and one call; the job leaves when its work is safe.

The handler itself only stores a few values and writes one byte: it takes no lock, so it may interrupt
anything. Callbacks run in a thread that waits for that byte, also while the main thread is inside a long
call that lets no handler run.
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
"""The exit code that says: I was asked to stop, my work is saved as far as it could be, run me again."""

GRACE = "BURSAR_GRACE_SECONDS"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
_CLOSING = 0


class Preempted(SystemExit):
    """Leaves the job with ``PREEMPTED_EXIT``."""

    def __init__(self) -> None:
        super().__init__(PREEMPTED_EXIT)


class StopSignals:
    """Listens between ``listen`` and ``close``. The flag stays what it is afterwards."""

    def __init__(self, signals: Iterable[int] = STOP_SIGNALS) -> None:
        self.asked = False
        self.signum = int(signal.SIGTERM)
        """Which signal asked."""
        self.asked_at_ms = 0
        self._signals = tuple(signals)
        self._asked_at = 0.0
        self._grace_seconds = _seconds(os.environ.get(GRACE))
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._called = False
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1
        self._pipe: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None

    def listen(self) -> bool:
        """Whether signals can be heard: Python gives them to the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return False
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        self._pipe = (read_end, write_end)
        self._thread = threading.Thread(target=self._wait, name="bursar-stop", daemon=True)
        self._thread.start()
        for signum in self._signals:
            self._before[signum] = signal.signal(signum, self._hear)
        self._wakeup_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        if self._wakeup_before != -1:
            signal.set_wakeup_fd(self._wakeup_before, warn_on_full_buffer=False)
        _LISTENING.append(self)
        return True

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Called once; at once when the stop has come already."""
        with self._lock:
            if not self._called:
                self._callbacks.append(callback)
                return
        callback()

    @property
    def grace_left_seconds(self) -> float | None:
        """None when nobody said how long the grace is, or no stop was asked for."""
        if self._grace_seconds is None or not self.asked:
            return None
        return self._asked_at + self._grace_seconds - time.monotonic()

    @property
    def ends_at_ms(self) -> int | None:
        """When the grace is over; None as above."""
        if self._grace_seconds is None or not self.asked:
            return None
        return self.asked_at_ms + round(self._grace_seconds * 1_000)

    def close(self) -> None:
        """Give every signal back to whom it belonged, unless somebody took it from us meanwhile."""
        if self._pipe is None or self._thread is None:
            return
        self._give_back()
        _LISTENING.remove(self)
        os.write(self._pipe[1], bytes([_CLOSING]))
        if threading.current_thread() is not self._thread:
            self._thread.join()
        for fd in self._pipe:
            os.close(fd)
        self._pipe = self._thread = None

    def _give_back(self) -> None:
        for signum, before in self._before.items():
            if signal.getsignal(signum) == self._hear:
                signal.signal(signum, signal.SIG_DFL if before is None else before)
        if self._wakeup_before == -1 and self._pipe is not None:
            other = signal.set_wakeup_fd(-1)
            if other not in (-1, self._pipe[1]):
                signal.set_wakeup_fd(other)

    def _hear(self, signum: int, frame: FrameType | None) -> None:
        del frame
        self._flag(signum)
        if self._pipe is not None:
            try:
                os.write(self._pipe[1], bytes([signum]))
            except OSError:
                return

    def _flag(self, signum: int) -> None:
        if not self.asked:
            self.signum = signum
            self._asked_at = time.monotonic()
            self.asked_at_ms = now_ms()
            self.asked = True

    def _wait(self) -> None:
        """The thread. Bytes are numbers of signals, of ours and of others."""
        assert self._pipe is not None
        read_end = self._pipe[0]
        while heard := os.read(read_end, 64):
            ours = [signum for signum in heard if signum in self._signals]
            if ours:
                self._flag(ours[0])
                self._call()
            if _CLOSING in heard:
                return

    def _call(self) -> None:
        with self._lock:
            if self._called:
                return
            self._called = True
            callbacks = tuple(self._callbacks)
        for callback in callbacks:
            callback()


_LISTENING: list[StopSignals] = []


_mask = threading.local()


def _before_fork() -> None:
    """A signal that comes between the fork and the child's first line of Python would be lost."""
    signals = {signum for listener in _LISTENING for signum in listener._signals}
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def _in_the_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _in_the_child() -> None:
    """A worker of a data loader must end when it is told to: it has nothing of ours to save."""
    for listener in _LISTENING:
        listener._give_back()
    _LISTENING.clear()
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


os.register_at_fork(
    before=_before_fork, after_in_parent=_in_the_parent, after_in_child=_in_the_child
)


def _seconds(text: str | None) -> float | None:
    try:
        return None if text is None else max(0.0, float(text))
    except ValueError:
        return None
