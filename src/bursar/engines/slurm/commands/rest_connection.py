"""Connections to slurmrestd that are kept open, and as much of HTTP as it speaks on them.

Every job that is submitted costs one exchange; the general reader of HTTP answers in the standard library
costs more than all else that we do for one.
"""

from __future__ import annotations

import re
import socket
import threading

from bursar.model.errors import EngineFault

PATIENCE_SECONDS = 10.0
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
    """As many connections as there are threads that use one at the same time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._free: list[socket.socket] = []
        self._lock = threading.Lock()

    def post(self, target: str, body: bytes) -> bytes:
        """What was answered. On a line that was closed meanwhile nothing arrives: then a new one is taken."""
        with self._lock:
            line = self._free.pop() if self._free else None
        if line is not None:
            try:
                return self._exchange(line, target, body)
            except NotReachable:
                self.close()
        return self._exchange(self._connected(), target, body)

    def close(self) -> None:
        """Those that nobody uses at the moment."""
        with self._lock:
            lines, self._free = self._free, []
        for line in lines:
            line.close()

    def _connected(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(PATIENCE_SECONDS)
        try:
            line.connect(self._path)
        except OSError as problem:
            line.close()
            raise NotReachable(f"slurmrestd: {problem}", retry_after_seconds=1) from problem
        return line

    def _exchange(self, line: socket.socket, target: str, body: bytes) -> bytes:
        """A line that breaks before an answer leaves us in doubt; one that takes no request does not."""
        head = (
            f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            line.sendall(head.encode("ascii") + body)
        except OSError as problem:
            # What is not wholly sent is not read: slurmrestd needs the body to its last byte.
            line.close()
            raise NotReachable(f"slurmrestd: {problem}", retry_after_seconds=1) from problem
        try:
            answer, is_kept = read_answer(line)
        except (OSError, ValueError) as problem:
            line.close()
            raise UnknownOutcome(f"slurmrestd: {problem!r}", retry_after_seconds=0.5) from problem
        if is_kept:
            with self._lock:
                self._free.append(line)
        else:
            line.close()
        return answer


def read_answer(line: socket.socket) -> tuple[bytes, bool]:
    """The body of one answer, and whether the line may be used again. ``ValueError`` for what is none."""
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        more = line.recv(READ_BYTES)
        if not more or len(got) > MOST_HEAD_BYTES:
            raise ValueError("the connection ended before an answer came")
        got += more
    head, body = got[: end + 4], got[end + 4 :]
    if not _STATUS.match(head) or _CHUNKED.search(head):
        raise ValueError(f"{head[:60]!r} begins no answer that can be read")
    length = _LENGTH.search(head)
    wanted = int(length[1]) if length else None
    while wanted is None or len(body) < wanted:
        more = line.recv(READ_BYTES)
        if not more and wanted is None:
            return body, False
        if not more:
            raise ValueError(f"the connection ended after {len(body)} of {wanted} bytes")
        body += more
    return body, not _CLOSES.search(head)
