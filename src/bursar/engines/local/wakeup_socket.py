"""Where the notes of keepers arrive, and what else wakes the thread that waits for reports."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator

from bursar.engines.local.supervisor import socket_messages
from bursar.engines.local.supervisor.socket_messages import Message

ROOM_BYTES = 4 << 20


class WakeupSocket:
    """A datagram socket in the engine's folder. The newest box of a folder gets the notes."""

    def __init__(self, folder: str) -> None:
        self._folder_fd = socket_messages.open_folder(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM_BYTES)
        self._socket.setblocking(False)
        path = socket_messages.short_path(self._folder_fd, socket_messages.NOTES_SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        self._socket.bind(path)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Wake up whoever waits."""
        os.eventfd_write(self._bell, 1)

    def wait(self, timeout_seconds: float, also: int | None) -> bool:
        """Until a note, the bell, or the other side of ``also`` goes; whether it was the latter."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        if also is not None:
            poll.register(also, select.POLLRDHUP)
        ready = {fd for fd, _ in poll.poll(max(0.0, timeout_seconds) * 1_000)}
        if self._bell in ready:
            os.eventfd_read(self._bell)
        return also in ready

    def notes(self) -> Iterator[Message]:
        """What has arrived."""
        while True:
            try:
                text = self._socket.recv(socket_messages.LARGEST_NOTE)
            except BlockingIOError:
                return
            yield json.loads(text)

    def close(self) -> None:
        self._socket.close()
        os.close(self._bell)
        os.close(self._folder_fd)
