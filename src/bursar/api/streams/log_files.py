"""Reads the output of tasks from the log files of an engine.

A client sends a task number and a stream name. Paths come only from the engine, are opened without
following links, and must be regular files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bursar.api import wire
from bursar.ports import LogFile

CHUNK_BYTES = 64 * 2**10
TAIL_BYTES = 8 * 2**20
"""A tail is searched in this many last bytes of each stream."""


@dataclass(slots=True)
class LogPosition:
    """How far one stream was read: the inode of its current file, and the offset in it."""

    inode: int = 0
    offset: int = 0


@dataclass(slots=True)
class LogReader:
    """Reads the streams of an attempt, and stores how far each was read."""

    positions: dict[tuple[int, str], LogPosition] = field(default_factory=dict)

    def chunks(self, files: Sequence[LogFile]) -> Iterator[wire.LogPiece]:
        """Reads new output, at most one chunk of each stream."""
        for file in files:
            position = self.positions.setdefault((file.task, file.stream), LogPosition())
            chunk = _next_chunk(file.paths, position)
            if chunk:
                yield _log_piece(file, chunk)

    def skip_to_tail(self, files: Sequence[LogFile], lines: int) -> None:
        """Skips to this many lines before the end of each stream."""
        for file in files:
            self.positions[file.task, file.stream] = _tail_position(file.paths, lines)


def _log_piece(file: LogFile, chunk: bytes) -> wire.LogPiece:
    return {
        "task": file.task,
        "node": file.node,
        "stream": "stderr" if file.stream == "stderr" else "stdout",
        "text": chunk.decode("utf-8", "replace"),
    }


def select_files(files: Sequence[LogFile], task: int | None, stream: str | None) -> list[LogFile]:
    """The files of a task and stream; None selects all."""
    selected = [
        file
        for file in files
        if (task is None or file.task == task) and (stream is None or file.stream == stream)
    ]
    return sorted(selected, key=lambda file: (file.task, file.stream != "stdout", file.stream))


def _open(path: str) -> int | None:
    """A file descriptor; None if there is no regular file."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    return number


def _next_chunk(paths: Sequence[str], position: LogPosition) -> bytes:
    """Reads on; at the end of a rotated file it continues with the next one.

    If the file read last was deleted by rotation, all files there are now are new.
    """
    descriptors = [number for path in paths if (number := _open(path)) is not None]
    try:
        inodes = [os.fstat(number).st_ino for number in descriptors]
        begin = inodes.index(position.inode) if position.inode in inodes else 0
        if position.inode not in inodes:
            position.offset = 0
        for number, inode in list(zip(descriptors, inodes, strict=True))[begin:]:
            if inode != position.inode:
                position.inode, position.offset = inode, 0
            chunk = os.pread(number, CHUNK_BYTES, position.offset)
            if chunk:
                chunk = _complete_characters(chunk)
                position.offset += len(chunk)
                return chunk
        return b""
    finally:
        for number in descriptors:
            os.close(number)


def _complete_characters(chunk: bytes) -> bytes:
    """Leaves a UTF-8 character that is cut off at the end for the next chunk."""
    for back in range(1, min(4, len(chunk))):
        lead = chunk[-back]
        if lead & 0b1100_0000 == 0b1100_0000:
            length = 2 + (lead >= 0b1110_0000) + (lead >= 0b1111_0000)
            return chunk[:-back] if length > back else chunk
        if lead < 0b1000_0000:
            return chunk
    return chunk


def _tail_position(paths: Sequence[str], lines: int) -> LogPosition:
    """Where the last lines begin, searched backwards from the end."""
    remaining_lines, remaining_bytes = lines, TAIL_BYTES
    position = LogPosition()
    for path in reversed(paths):
        number = _open(path)
        if number is None:
            continue
        try:
            status = os.fstat(number)
            size = status.st_size
            text = os.pread(number, min(size, remaining_bytes), max(0, size - remaining_bytes))
            position = LogPosition(inode=status.st_ino, offset=size - len(text))
            line_ends = text.count(b"\n") + (1 if text and not text.endswith(b"\n") else 0)
            if line_ends >= remaining_lines:
                position.offset += _start_of_last(text, remaining_lines)
                return position
            remaining_lines -= line_ends
            remaining_bytes -= len(text)
            if remaining_bytes <= 0:
                return position
        finally:
            os.close(number)
    return position


def _start_of_last(text: bytes, lines: int) -> int:
    """The offset in a text at which its last lines begin."""
    if lines == 0:
        return len(text)
    at = len(text) - 1 if text.endswith(b"\n") else len(text)
    for _ in range(lines):
        at = text.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1
