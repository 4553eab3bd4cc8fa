"""Wakes the thread that waits for reports: by datagrams of attempt processes, or by a call."""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Iterator

from bursar.engines.local.supervisor import socket_messages
from bursar.engines.local.supervisor.socket_messages import Message

RECEIVE_BUFFER_BYTES = 4 << 20


class WakeupSocket:
    """A datagram socket in the engine's folder. The newest socket of a folder gets the datagrams."""

    def __init__(self, folder: str) -> None:
        self._folder_fd = socket_messages.open_folder(folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._socket.setblocking(False)
        path = socket_messages.short_path(self._folder_fd, socket_messages.NOTIFY_SOCKET)
        if os.path.lexists(path):
            os.unlink(path)
        self._socket.bind(path)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def wake(self) -> None:
        """End the current ``wait``."""
        os.eventfd_write(self._event, 1)

    def wait(self, timeout_seconds: float, peer: int | None) -> bool:
        """Wait for a datagram, ``wake`` or the hang-up of ``peer``; true if ``peer`` hung up."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._event, select.POLLIN)
        if peer is not None:
            poll.register(peer, select.POLLRDHUP)
        ready = {fd for fd, _ in poll.poll(max(0.0, timeout_seconds) * 1_000)}
        if self._event in ready:
            os.eventfd_read(self._event)
        return peer in ready

    def messages(self) -> Iterator[Message]:
        """Datagrams received so far."""
        while True:
            try:
                text = self._socket.recv(socket_messages.LARGEST_DATAGRAM)
            except BlockingIOError:
                return
            yield json.loads(text)

    def close(self) -> None:
        self._socket.close()
        os.close(self._event)
        os.close(self._folder_fd)
