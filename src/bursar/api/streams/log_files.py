"""Output of tasks, read from the files that an engine names, and from no others.

A client says a task's number and one of two streams. Paths come from the engine alone, are opened
without following links, and must be plain files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bursar.api import wire
from bursar.ports import LogFile

PIECE_BYTES = 64 * 2**10
TAIL_BYTES = 8 * 2**20
"""A tail is looked for in the last so many bytes of each stream."""


@dataclass(slots=True)
class LogPosition:
    """How far one stream was read: in which part, known by its inode, and up to which byte."""

    inode: int = 0
    offset: int = 0


@dataclass(slots=True)
class Reading:
    """All streams of an attempt that somebody reads, and how far he is in each."""

    positions: dict[tuple[int, str], LogPosition] = field(default_factory=dict)

    def pieces(self, files: Sequence[LogFile]) -> Iterator[wire.LogPiece]:
        """What is new, at most one piece of each stream at a time."""
        for file in files:
            at = self.positions.setdefault((file.task, file.stream), LogPosition())
            piece = _next_piece(file.paths, at)
            if piece:
                yield _piece(file, piece)

    def skip_to_tail(self, files: Sequence[LogFile], lines: int) -> None:
        """Begin so many lines before the end of each stream."""
        for file in files:
            self.positions[file.task, file.stream] = _tail_position(file.paths, lines)


def _piece(file: LogFile, piece: bytes) -> wire.LogPiece:
    return {
        "task": file.task,
        "node": file.node,
        "stream": "stderr" if file.stream == "stderr" else "stdout",
        "text": piece.decode("utf-8", "replace"),
    }


def chosen(files: Sequence[LogFile], task: int | None, stream: str | None) -> list[LogFile]:
    """The streams that were asked for, by task and name."""
    found = [
        file
        for file in files
        if (task is None or file.task == task) and (stream is None or file.stream == stream)
    ]
    return sorted(found, key=lambda file: (file.task, file.stream != "stdout", file.stream))


def _open(path: str) -> int | None:
    """The file, if there is one and it is one."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        return None
    return number


def _next_piece(paths: Sequence[str], at: LogPosition) -> bytes:
    """Read on. When a part is read to its end and a newer one is there, go to that one.

    A part that was read and has been dropped since means that all parts there are now are new.
    """
    parts = [(path, number) for path in paths if (number := _open(path)) is not None]
    try:
        inodes = [os.fstat(number).st_ino for _, number in parts]
        begin = inodes.index(at.inode) if at.inode in inodes else 0
        if at.inode not in inodes:
            at.offset = 0
        for (_, number), inode in list(zip(parts, inodes, strict=True))[begin:]:
            if inode != at.inode:
                at.inode, at.offset = inode, 0
            piece = os.pread(number, PIECE_BYTES, at.offset)
            if piece:
                piece = _whole_characters(piece)
                at.offset += len(piece)
                return piece
        return b""
    finally:
        for _, number in parts:
            os.close(number)


def _whole_characters(piece: bytes) -> bytes:
    """Leave a character that is cut at the end for the next piece, unless it is all there is."""
    for back in range(1, min(4, len(piece))):
        lead = piece[-back]
        if lead & 0b1100_0000 == 0b1100_0000:
            length = 2 + (lead >= 0b1110_0000) + (lead >= 0b1111_0000)
            return piece[:-back] if length > back else piece
        if lead < 0b1000_0000:
            return piece
    return piece


def _tail_position(paths: Sequence[str], lines: int) -> LogPosition:
    """Where the last lines begin, looked for from the end backwards."""
    left, budget = lines, TAIL_BYTES
    found = LogPosition()
    for path in reversed(paths):
        number = _open(path)
        if number is None:
            continue
        try:
            status = os.fstat(number)
            size = status.st_size
            text = os.pread(number, min(size, budget), max(0, size - budget))
            found = LogPosition(inode=status.st_ino, offset=size - len(text))
            ends = text.count(b"\n") + (1 if text and not text.endswith(b"\n") else 0)
            if ends >= left:
                found.offset += _start_of_last(text, left)
                return found
            left -= ends
            budget -= len(text)
            if budget <= 0:
                return found
        finally:
            os.close(number)
    return found


def _start_of_last(text: bytes, lines: int) -> int:
    """The place in a text where its last lines begin."""
    if lines == 0:
        return len(text)
    at = len(text) - 1 if text.endswith(b"\n") else len(text)
    for _ in range(lines):
        at = text.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1
