"""Packs the files of a job into a reproducible archive, named by its SHA-256.

Names are sorted and times are fixed, so an unchanged folder has the same name and is not uploaded again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bursar.client.errors import BadBundle
from bursar.client.ignore_rules import Ignored, read_ignored

MOST_BYTES: Final = 100 * 1024 * 1024
MOST_FILES: Final = 10_000
SHOWN: Final = 5
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bundle:
    """A ``tar.gz``. ``sha256`` of ``content`` is its name."""

    sha256: str
    content: bytes
    files: int


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    content: Path | bytes | None
    size: int
    executable: bool = False


def pack(path: Path) -> Bundle:
    """Packs a folder without its ignored files, or one file."""
    return _archive(list(_members(path)))


def pack_files(files: Mapping[str, bytes | Path]) -> Bundle:
    """Packs files by their names in the archive; a later one replaces an earlier.

    A folder is packed with its content; the empty name is the root of the archive.
    """
    members: dict[str, _Member] = {}
    for name, content in files.items():
        if isinstance(content, Path):
            added = _members(content, name)
        else:
            added = iter([_Member(name, content, len(content))])
        members.update((member.name, member) for member in added)
    return _archive(list(members.values()))


def _archive(members: list[_Member]) -> Bundle:
    members.sort(key=lambda member: member.name)
    _refuse_large(members)
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member in members:
            _add(archive, member)
    content = buffer.getvalue()
    files = sum(1 for member in members if member.content is not None)
    return Bundle(hashlib.sha256(content).hexdigest(), content, files)


def _add(archive: tarfile.TarFile, member: _Member) -> None:
    entry = tarfile.TarInfo(member.name)
    entry.mode = 0o755 if member.executable or member.content is None else 0o644
    if member.content is None:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        return
    content = member.content if isinstance(member.content, bytes) else _read(member.content)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _members(path: Path, under: str = "") -> Iterator[_Member]:
    try:
        status = path.stat()
    except OSError as error:
        raise _cannot_read(path, error) from error
    if stat.S_ISREG(status.st_mode):
        yield _file(path, status, under or path.name)
    elif stat.S_ISDIR(status.st_mode):
        if under:
            yield _Member(under, None, 0)
        yield from _folder(path, path, read_ignored(path), under)
    else:
        raise _odd(path)


def _folder(top: Path, folder: Path, ignored: Ignored, under: str) -> Iterator[_Member]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise _cannot_read(folder, error) from error
    for entry in entries:
        path = Path(entry.path)
        inside = path.relative_to(top).as_posix()
        name = f"{under}/{inside}" if under else inside
        is_folder = entry.is_dir(follow_symlinks=False)
        if ignored.covers(inside, is_folder=is_folder):
            continue
        if is_folder:
            yield _Member(name, None, 0)
            yield from _folder(top, path, ignored, under)
        elif entry.is_symlink():
            yield _linked(top, path, name)
        elif entry.is_file(follow_symlinks=False):
            yield _file(path, entry.stat(follow_symlinks=False), name)
        else:
            raise _odd(path)


def _linked(top: Path, path: Path, name: str) -> _Member:
    """Replaces a link by its file if that is in the same folder; refuses other links."""
    target = path.resolve()
    if target.is_file() and target.is_relative_to(top.resolve()):
        return _file(target, target.stat(), name)
    raise BadBundle(
        f"{path} is a link to {target}, which is outside the folder or not a file.",
        fix=f"Put the file itself there, or add '{path.name}' to .bursarignore.",
        code="bundle-link",
    )


def _file(path: Path, status: os.stat_result, name: str) -> _Member:
    return _Member(name, path, status.st_size, bool(status.st_mode & 0o111))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _cannot_read(path, error) from error


def _refuse_large(members: list[_Member]) -> None:
    total = sum(member.size for member in members)
    if total > MOST_BYTES:
        largest = sorted(members, key=lambda member: (-member.size, member.name))[:SHOWN]
        names = ", ".join(f"{member.name} ({member.size / MIB:.1f} MiB)" for member in largest)
        raise BadBundle(
            f"the files of the job are {total / MIB:.1f} MiB; at most {MOST_BYTES // MIB} MiB are sent. "
            f"The largest are {names}.",
            fix="List files that the job does not need in .bursarignore; put large inputs on shared storage.",
            code="bundle-too-large",
        )
    if len(members) > MOST_FILES:
        raise BadBundle(
            f"the job has {len(members):,} files; at most {MOST_FILES:,} are sent.",
            fix="List folders that the job does not need in .bursarignore, such as node_modules/.",
            code="bundle-too-many-files",
        )


def _cannot_read(path: Path, error: OSError) -> BadBundle:
    return BadBundle(
        f"{path} cannot be read: {error.strerror or error}.",
        fix="Check the path and its permissions, or add it to .bursarignore.",
        code="bundle-unreadable",
    )


def _odd(path: Path) -> BadBundle:
    return BadBundle(
        f"{path} is neither a file nor a folder.",
        fix="Add it to .bursarignore.",
        code="bundle-odd-file",
    )
