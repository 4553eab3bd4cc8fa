"""The control plane's end of the warden's socket. Starts a warden when there is none."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from bursar.engines.local.supervisor import attempt_folder as names
from bursar.engines.local.supervisor import socket_messages
from bursar.engines.local.supervisor.socket_messages import Message
from bursar.model.errors import EngineFault

START_SECONDS = 10.0
START_AGAIN_SECONDS = 1.0
ANSWER_SECONDS = 30.0
RETRY_AFTER_SECONDS = 2.0

# Isolated, and without site-packages: a warden starts in a few hundredths of a second and is small.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from bursar.engines.local.supervisor.supervisor import main; main(sys.argv[2], float(sys.argv[3]))"
)
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]


class SupervisorClient:
    """One connection, used by one thread at a time. Orders may be repeated, so a broken one is."""

    def __init__(self, state: str, linger_seconds: float) -> None:
        self._state = state
        self._linger_seconds = linger_seconds
        self._folder_fd = socket_messages.open_folder(names.engine_folder(state))
        self._lock = threading.Lock()
        self._stream: socket.socket | None = None
        self._replaced = False
        self.warden_pid = 0

    def request(self, message: Message) -> Message:
        """What the warden answers; ``EngineFault`` when it cannot be asked or could not do it."""
        with self._lock:
            answer = self._exchange(message) or self._exchange(message)
        if answer is None:
            raise _fault("the warden does not answer")
        if not answer.get("ok"):
            raise _fault(f"the warden could not do it: {answer.get('problem', 'no reason given')}")
        return answer

    def keep_up(self) -> None:
        """Connect if there is no connection; a warden that was killed is replaced."""
        with self._lock:
            if self._stream is not None and self._is_quiet(self._stream):
                return
            self._connect()

    @property
    def fileno(self) -> int | None:
        """To be polled for the end of the connection."""
        stream = self._stream
        return None if stream is None or stream.fileno() < 0 else stream.fileno()

    def _is_quiet(self, stream: socket.socket) -> bool:
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        if not poll.poll(0):
            return True
        self._read(stream)
        return False

    def _exchange(self, message: Message) -> Message | None:
        if self._stream is None or not self._is_quiet(self._stream):
            self._connect()
        assert self._stream is not None
        try:
            socket_messages.send(self._stream, message)
        except OSError:
            self._drop()
            return None
        return self._read(self._stream)

    def _read(self, stream: socket.socket) -> Message | None:
        try:
            answer = socket_messages.receive(stream)
        except (OSError, ValueError):
            answer = None
        if answer is None or answer.get("replaced"):
            self._replaced = self._replaced or answer is not None
            self._drop()
            return None
        return answer

    def _connect(self) -> None:
        if self._replaced:
            raise _fault("another control plane has taken over this state folder")
        self._drop()
        until = time.monotonic() + START_SECONDS
        start_again_at = 0.0
        while time.monotonic() < until:
            stream = self._dial()
            if stream is not None and self._greet(stream):
                self._stream = stream
                return
            if time.monotonic() > start_again_at:
                start_again_at = time.monotonic() + START_AGAIN_SECONDS
                self._start_warden()
            time.sleep(0.005)
        raise _fault(f"no warden could be started within {START_SECONDS:g} s")

    def _dial(self) -> socket.socket | None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(ANSWER_SECONDS)
        try:
            stream.connect(
                socket_messages.short_path(self._folder_fd, socket_messages.WARDEN_SOCKET)
            )
        except OSError:
            stream.close()
            return None
        return stream

    def _greet(self, stream: socket.socket) -> bool:
        """A warden of another version goes; the next one takes over its keepers."""
        try:
            socket_messages.send(stream, {"do": "hello"})
            answer = socket_messages.receive(stream)
            if answer is not None and answer.get("version") == socket_messages.VERSION:
                self.warden_pid = int(answer["pid"])
                return True
            socket_messages.send(stream, {"do": "retire"})
            socket_messages.receive(stream)
        except (OSError, ValueError):
            pass
        stream.close()
        return False

    def _start_warden(self) -> None:
        words = [str(_PACKAGE_ROOT), self._state, str(self._linger_seconds)]
        with open(Path(names.engine_folder(self._state)) / "warden.log", "ab") as log:
            try:
                subprocess.run(
                    [sys.executable, "-I", "-S", "-c", _BOOT, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={"LANG": "C.UTF-8"},
                    start_new_session=True,
                    check=False,
                    timeout=START_SECONDS,
                )
            except (OSError, subprocess.SubprocessError) as problem:
                raise _fault(f"no warden could be started: {problem}") from problem

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        """Let go; the warden stays for as long as something runs."""
        with self._lock:
            self._drop()
            if self._folder_fd >= 0:
                os.close(self._folder_fd)
                self._folder_fd = -1


def _fault(problem: str) -> EngineFault:
    return EngineFault(f"local engine: {problem}", retry_after_seconds=RETRY_AFTER_SECONDS)
