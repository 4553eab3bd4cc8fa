"""Opens a trace: a plain file, a compressed file, or a member of an archive."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, cast

from bursar.model.errors import UserError
from bursar.model.suggestion import did_you_mean

MEMBER_MARK = "::"
"""Separates an archive from a file in it: ``workloads.tar.xz::philly/workload-1.csv``."""

HEAD_LINES = 64
SHOWN_MEMBERS = 12

_ARCHIVE_ENDINGS = (".tar", ".tar.xz", ".tar.gz", ".tgz", ".txz")
_XZ_MAGIC = b"\xfd7zXZ\x00"
_GZIP_MAGIC = b"\x1f\x8b"

_BROKEN = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error, tarfile.TarError)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceText:
    """The lines of one file; ``head`` is a preview of the first of ``lines``."""

    name: str
    path: Path
    head: tuple[str, ...]
    lines: Iterator[str]


@contextmanager
def open_trace(path: str | Path) -> Iterator[TraceText]:
    """Opens a trace; its lines are read lazily, so memory does not grow with the file."""
    with open_stream(path) as stream:
        text = io.TextIOWrapper(
            cast("IO[bytes]", stream), encoding="utf-8-sig", errors="replace", newline=""
        )
        try:
            head = tuple(islice(text, HEAD_LINES))
            yield TraceText(
                name=str(path), path=split_member(path)[0], head=head, lines=chain(head, text)
            )
        except _BROKEN as damage:
            raise _damaged(path, damage) from damage


@contextmanager
def open_stream(path: str | Path) -> Iterator[io.BufferedIOBase]:
    """Opens a file for reading bytes, decompressed and taken out of its archive."""
    file, member = split_member(path)
    if not file.is_file():
        what = "this is not a regular file" if file.exists() else "there is no such file"
        raise UserError(
            f"{file}: {what}.",
            fix="Check the path, or write ARCHIVE::MEMBER for a file in an archive.",
            code="trace-not-found",
        )
    if member is not None or file.name.endswith(_ARCHIVE_ENDINGS):
        with _open_member(file, member) as stream:
            yield stream
        return
    with file.open("rb") as raw:
        magic = raw.read(len(_XZ_MAGIC))
        raw.seek(0)
        if magic == _XZ_MAGIC:
            with lzma.open(raw) as unpacked:
                yield cast("io.BufferedIOBase", unpacked)
        elif magic.startswith(_GZIP_MAGIC):
            with gzip.open(raw) as unpacked_gzip:
                yield cast("io.BufferedIOBase", unpacked_gzip)
        else:
            yield raw


def split_member(path: str | Path) -> tuple[Path, str | None]:
    """Splits ``ARCHIVE::MEMBER`` into the file and the member, if any."""
    file, mark, member = str(path).partition(MEMBER_MARK)
    return Path(file), member if mark else None


def archive_members(archive: str | Path) -> tuple[str, ...]:
    """Lists the files in an archive by name, each as a path for ``open_trace``."""
    file = Path(archive)
    try:
        with tarfile.open(file, "r:*") as opened:
            names = sorted(entry.name for entry in opened if entry.isfile())
    except _BROKEN as damage:
        raise _damaged(file, damage) from damage
    return tuple(f"{file}{MEMBER_MARK}{name}" for name in names)


@contextmanager
def _open_member(file: Path, member: str | None) -> Iterator[io.BufferedIOBase]:
    if member is None:
        member = _only_member(file)
    names: list[str] = []
    try:
        with tarfile.open(file, "r:*") as archive:
            for entry in archive:
                if not entry.isfile():
                    continue
                if entry.name.removeprefix("./") == member.removeprefix("./"):
                    stream = archive.extractfile(entry)
                    assert stream is not None, "a regular file has contents"
                    yield cast("io.BufferedIOBase", stream)
                    return
                names.append(entry.name)
    except _BROKEN as damage:
        raise _damaged(file, damage) from damage
    raise UserError(
        f"{file}: the archive has no file {member!r}.",
        fix=did_you_mean(member, names, 3) or f"It has {_abbreviate(sorted(names))}.",
        code="trace-not-found",
    )


def _only_member(file: Path) -> str:
    names = [name.partition(MEMBER_MARK)[2] for name in archive_members(file)]
    if len(names) == 1:
        return names[0]
    raise UserError(
        f"{file}: the archive has {len(names)} files; name one of them.",
        fix=f"Write {file.name}{MEMBER_MARK}MEMBER with one of {_abbreviate(names)}.",
        code="trace-not-found",
    )


def _abbreviate(names: list[str]) -> str:
    more = len(names) - SHOWN_MEMBERS
    shown = ", ".join(names[:SHOWN_MEMBERS])
    return f"{shown} and {more} more" if more > 0 else shown


def _damaged(path: str | Path, damage: BaseException) -> UserError:
    return UserError(
        f"{path}: the file is damaged, or its name has the wrong suffix ({damage}).",
        fix="Download it again.",
        code="trace-damaged",
    )
