"""JSON messages between processes of one user: length-prefixed over a stream, or as datagrams."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

from bursar.engines.local.supervisor.attempt_folder import AttemptFolder

VERSION = 2
"""Version of the messages. A supervisor of another version retires; the next one adopts its attempts."""

SUPERVISOR_SOCKET, NOTIFY_SOCKET = "supervisor.sock", "notify.sock"
LARGEST_MESSAGE = 64 << 20
LARGEST_DATAGRAM = 8 << 10
_LENGTH = struct.Struct("!I")

Message = dict[str, Any]


def send(stream: socket.socket, message: Message) -> None:
    """Send one message."""
    text = json.dumps(message).encode()
    stream.sendall(_LENGTH.pack(len(text)) + text)


def receive(stream: socket.socket) -> Message | None:
    """One message, or None if the peer has closed the stream, even within a message."""
    prefix = _receive_exactly(stream, _LENGTH.size)
    if prefix is None:
        return None
    (length,) = _LENGTH.unpack(prefix)
    if length > LARGEST_MESSAGE:
        return None
    text = _receive_exactly(stream, length)
    return None if text is None else json.loads(text)


def _receive_exactly(stream: socket.socket, count: int) -> bytes | None:
    received = bytearray()
    while len(received) < count:
        chunk = stream.recv(min(count - len(received), 1 << 20))
        if not chunk:
            return None
        received += chunk
    return bytes(received)


def notify(folder_fd: int, folder: AttemptFolder) -> None:
    """Notify the engine, if one listens, that an attempt's files have changed. May get lost."""
    message = {"job_id": folder.job_id, "attempt": folder.attempt}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(2.0)
        try:
            sender.sendto(json.dumps(message).encode(), short_path(folder_fd, NOTIFY_SOCKET))
        except OSError:
            return


def short_path(folder_fd: int, name: str) -> str:
    """A socket path that fits into the 107 bytes of an address, however long the state folder's path."""
    return f"/proc/self/fd/{folder_fd}/{name}"


def open_folder(path: str) -> int:
    """A folder's descriptor for ``short_path``."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
