"""Client of the supervisor's socket. Starts a supervisor when there is none."""

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
RESPONSE_SECONDS = 30.0
RETRY_AFTER_SECONDS = 2.0

# Isolated and without site-packages: a supervisor starts in some 30 ms and needs little memory.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from bursar.engines.local.supervisor.supervisor import main; main(sys.argv[2], float(sys.argv[3]))"
)
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]


class SupervisorClient:
    """One connection, used by one thread at a time. Orders are idempotent, so a failed one is resent."""

    def __init__(self, state: str, linger_seconds: float) -> None:
        self._state = state
        self._linger_seconds = linger_seconds
        self._folder_fd = socket_messages.open_folder(names.engine_folder(state))
        self._lock = threading.Lock()
        self._stream: socket.socket | None = None
        self._replaced = False
        self.supervisor_pid = 0

    def request(self, message: Message) -> Message:
        """The supervisor's response; ``EngineFault`` if it is unreachable or reports a problem."""
        with self._lock:
            response = self._exchange(message) or self._exchange(message)
        if response is None:
            raise _fault("the supervisor does not respond")
        if not response.get("ok"):
            problem = response.get("problem", "no reason given")
            raise _fault(f"the supervisor failed: {problem}")
        return response

    def ensure_connected(self) -> None:
        """Connect if there is no connection; start a supervisor if it was killed."""
        with self._lock:
            if self._stream is not None and self._is_idle(self._stream):
                return
            self._connect()

    @property
    def fileno(self) -> int | None:
        """File descriptor to poll for the end of the connection."""
        stream = self._stream
        return None if stream is None or stream.fileno() < 0 else stream.fileno()

    def _is_idle(self, stream: socket.socket) -> bool:
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        if not poll.poll(0):
            return True
        self._read(stream)
        return False

    def _exchange(self, message: Message) -> Message | None:
        if self._stream is None or not self._is_idle(self._stream):
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
            response = socket_messages.receive(stream)
        except (OSError, ValueError):
            response = None
        if response is None or response.get("replaced"):
            self._replaced = self._replaced or response is not None
            self._drop()
            return None
        return response

    def _connect(self) -> None:
        if self._replaced:
            raise _fault("another control plane has taken over this state folder")
        self._drop()
        until = time.monotonic() + START_SECONDS
        start_again_at = 0.0
        while time.monotonic() < until:
            stream = self._dial()
            if stream is not None and self._handshake(stream):
                self._stream = stream
                return
            if time.monotonic() > start_again_at:
                start_again_at = time.monotonic() + START_AGAIN_SECONDS
                self._start_supervisor()
            time.sleep(0.005)
        raise _fault(f"no supervisor could be started within {START_SECONDS:g} s")

    def _dial(self) -> socket.socket | None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(RESPONSE_SECONDS)
        try:
            stream.connect(
                socket_messages.short_path(self._folder_fd, socket_messages.SUPERVISOR_SOCKET)
            )
        except OSError:
            stream.close()
            return None
        return stream

    def _handshake(self, stream: socket.socket) -> bool:
        """A supervisor of another version retires; the next one adopts its attempt processes."""
        try:
            socket_messages.send(stream, {"do": "hello"})
            response = socket_messages.receive(stream)
            if response is not None and response.get("version") == socket_messages.VERSION:
                self.supervisor_pid = int(response["pid"])
                return True
            socket_messages.send(stream, {"do": "retire"})
            socket_messages.receive(stream)
        except (OSError, ValueError):
            pass
        stream.close()
        return False

    def _start_supervisor(self) -> None:
        arguments = [str(_PACKAGE_ROOT), self._state, str(self._linger_seconds)]
        with open(Path(names.engine_folder(self._state)) / "supervisor.log", "ab") as log:
            try:
                subprocess.run(
                    [sys.executable, "-I", "-S", "-c", _BOOT, *arguments],
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
                raise _fault(f"no supervisor could be started: {problem}") from problem

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        """Close the connection; the supervisor runs as long as any attempt."""
        with self._lock:
            self._drop()
            if self._folder_fd >= 0:
                os.close(self._folder_fd)
                self._folder_fd = -1


def _fault(problem: str) -> EngineFault:
    return EngineFault(f"local engine: {problem}", retry_after_seconds=RETRY_AFTER_SECONDS)
