"""Whole messages over a stream, and short notes to whoever listens. JSON, between processes of one user."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

VERSION = 1
"""Of the messages. A warden of another version retires; its keepers are taken over by the next one."""

WARDEN_SOCKET, NOTES_SOCKET = "warden.sock", "notes.sock"
LARGEST_MESSAGE = 64 << 20
LARGEST_NOTE = 8 << 10
_LENGTH = struct.Struct("!I")

Message = dict[str, Any]


def send(stream: socket.socket, message: Message) -> None:
    """One message, whole."""
    text = json.dumps(message).encode()
    stream.sendall(_LENGTH.pack(len(text)) + text)


def receive(stream: socket.socket) -> Message | None:
    """One message, or None when the other side is gone, also in the middle of one."""
    head = _exactly(stream, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > LARGEST_MESSAGE:
        return None
    text = _exactly(stream, length)
    return None if text is None else json.loads(text)


def _exactly(stream: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = stream.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def note(folder_fd: int, message: Message) -> None:
    """Tell the listening engine, if one listens. Only a hint: what it tells of is on disk already."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(2.0)
        try:
            sender.sendto(json.dumps(message).encode(), short_path(folder_fd, NOTES_SOCKET))
        except OSError:
            return


def short_path(folder_fd: int, name: str) -> str:
    """A path to a socket that fits into the 107 bytes of an address wherever the state folder is."""
    return f"/proc/self/fd/{folder_fd}/{name}"


def open_folder(path: str) -> int:
    """A handle of a folder for ``short_path``."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
