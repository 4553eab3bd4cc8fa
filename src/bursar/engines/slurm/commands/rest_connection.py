"""Persistent connections to slurmrestd, with the subset of HTTP that it uses.

Every submitted job costs one exchange, and parsing its response with the standard library's HTTP client
takes longer than everything else we do for a job.
"""

from __future__ import annotations

import re
import socket
import threading

from bursar.model.errors import EngineFault

TIMEOUT_SECONDS = 10.0
READ_BYTES = 65_536
MOST_HEAD_BYTES = 65_536

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,10})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


class UnknownOutcome(EngineFault):
    """The request may or may not have arrived."""


class NotReachable(EngineFault):
    """The request certainly did not arrive."""


class RestConnections:
    """A pool of connections, one for each thread that uses one at the same time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._free: list[socket.socket] = []
        self._lock = threading.Lock()

    def post(self, target: str, body: bytes) -> bytes:
        """The response's body. A pooled connection that the server has closed is replaced by a new one."""
        with self._lock:
            connection = self._free.pop() if self._free else None
        if connection is not None:
            try:
                return self._exchange(connection, target, body)
            except NotReachable:
                self.close()
        return self._exchange(self._connect(), target, body)

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            connections, self._free = self._free, []
        for connection in connections:
            connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_SECONDS)
        try:
            connection.connect(self._path)
        except OSError as problem:
            connection.close()
            raise NotReachable(f"slurmrestd: {problem}", retry_after_seconds=1) from problem
        return connection

    def _exchange(self, connection: socket.socket, target: str, body: bytes) -> bytes:
        """One exchange. A failure after the request is sent leaves its outcome unknown."""
        head = (
            f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            connection.sendall(head.encode("ascii") + body)
        except OSError as problem:
            # slurmrestd ignores an incomplete request.
            connection.close()
            raise NotReachable(f"slurmrestd: {problem}", retry_after_seconds=1) from problem
        try:
            response, is_reusable = read_response(connection)
        except (OSError, ValueError) as problem:
            connection.close()
            raise UnknownOutcome(f"slurmrestd: {problem!r}", retry_after_seconds=0.5) from problem
        if is_reusable:
            with self._lock:
                self._free.append(connection)
        else:
            connection.close()
        return response


def read_response(connection: socket.socket) -> tuple[bytes, bool]:
    """The body of one response, and whether the connection is reusable. ``ValueError`` if it is invalid."""
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        chunk = connection.recv(READ_BYTES)
        if not chunk or len(received) > MOST_HEAD_BYTES:
            raise ValueError("the connection ended before a response")
        received += chunk
    head, body = received[: end + 4], received[end + 4 :]
    if not _STATUS.match(head) or _CHUNKED.search(head):
        raise ValueError(f"not a readable response: {head[:60]!r}")
    length = _LENGTH.search(head)
    body_bytes = int(length[1]) if length else None
    while body_bytes is None or len(body) < body_bytes:
        chunk = connection.recv(READ_BYTES)
        if not chunk and body_bytes is None:
            return body, False
        if not chunk:
            raise ValueError(f"the connection ended after {len(body)} of {body_bytes} bytes")
        body += chunk
    return body, not _CLOSES.search(head)
