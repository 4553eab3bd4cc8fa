"""Writes the output of tasks to rotated files of bounded size."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

CHUNK = 1 << 16


class LogShare(NamedTuple):
    """Limit of one stream's output: number and size of its files; the oldest are overwritten."""

    file_bytes: int
    files: int


class LogWriter:
    """One stream of one task. A full disk loses output but stops neither task nor attempt process."""

    def __init__(self, path: str, share: LogShare) -> None:
        self._path = path
        self._share = share
        self._fd = -1
        self._size = 0
        self._lost = 0

    def write(self, text: bytes) -> None:
        """Append, after rotating a full file."""
        try:
            self._open()
            if self._lost:
                self._append(
                    f"\n[bursar: {self._lost} bytes of output were lost here: disk full]\n".encode()
                )
                self._lost = 0
            self._append(text)
        except OSError as problem:
            if problem.errno not in (
                errno.ENOSPC,
                errno.EDQUOT,
                errno.EIO,
                errno.EROFS,
                errno.EFBIG,
            ):
                raise
            self._lost += len(text)

    def _open(self) -> None:
        if self._fd >= 0 and self._size < self._share.file_bytes:
            return
        if self._fd >= 0:
            self.close()
            self._rotate()
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _append(self, text: bytes) -> None:
        while text:
            written = os.write(self._fd, text)
            self._size += written
            text = text[written:]

    def _rotate(self) -> None:
        """Rename ``x`` to ``x.1`` and ``x.1`` to ``x.2``; the oldest file is overwritten."""
        for number in range(self._share.files - 2, -1, -1):
            older = f"{self._path}.{number}" if number else self._path
            if os.path.exists(older):
                os.rename(older, f"{self._path}.{number + 1}")
        if self._share.files < 2:
            os.unlink(self._path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def existing_files(path: str, files: int) -> tuple[str, ...]:
    """Files of one stream that exist, oldest first."""
    names = [f"{path}.{number}" for number in range(files - 1, 0, -1)] + [path]
    return tuple(name for name in names if os.path.exists(name))


class Pump:
    """Copies what a task writes into its log. Never blocks."""

    def __init__(self, writer: LogWriter) -> None:
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        self._writer = writer

    def move(self, at_most: int = 16 * CHUNK) -> bool:
        """Copy what is available; False at the end of the stream."""
        while at_most > 0:
            try:
                text = os.read(self.source, CHUNK)
            except BlockingIOError:
                return True
            if not text:
                return False
            self._writer.write(text)
            at_most -= len(text)
        return True

    def close(self) -> None:
        """Copy what is still in the pipe and close it, even if another process holds the other end."""
        self.move()
        os.close(self.source)
