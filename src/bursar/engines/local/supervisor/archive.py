"""Unpacks users' archives into a new folder, safely.

Only files and folders are accepted: a link could lead out of the folder. Nothing else writes into the
folder meanwhile and it contains no links, so a name without ``..`` stays inside.
Sizes are counted as they are written; declared sizes are not trusted.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import tarfile
import zlib
from collections.abc import Callable
from typing import IO, NamedTuple

CHUNK = 1 << 20
LARGEST_READ = 4 << 20
"""Limit of a single header: extended headers are read into memory."""


class UnpackLimits(NamedTuple):
    """Limits of one archive."""

    total_bytes: int = 20 << 30
    members: int = 200_000
    depth: int = 100


class BadArchive(Exception):
    """An invalid archive; the text is the reason."""


SHA256 = re.compile(r"[0-9a-f]{64}")


def unpack(
    bundle: str, target: str, limits: UnpackLimits, is_cancelled: Callable[[], bool]
) -> None:
    """Unpack ``bundle`` (named by its SHA-256) into ``target``, until it is cancelled."""
    name = os.path.basename(bundle)
    if not SHA256.fullmatch(name):
        raise BadArchive(f"{name[:70]!r} is not a bundle name of 64 hexadecimal digits")
    try:
        with open(bundle, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != name:
                raise BadArchive(
                    f"the stored bundle {name[:12]} is damaged: its SHA-256 is {digest[:12]}"
                )
            file.seek(0)
            _unpack_stream(file, target, limits, is_cancelled)
    except FileNotFoundError:
        text = f"the bundle {name[:12]} is not on this machine; submit the job again with its files"
        raise BadArchive(text) from None
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as problem:
        raise BadArchive(f"the bundle {name[:12]} is not a readable tar.gz: {problem}") from problem


def _unpack_stream(
    file: IO[bytes], target: str, limits: UnpackLimits, is_cancelled: Callable[[], bool]
) -> None:
    remaining_bytes = limits.total_bytes
    with _Bounded(fileobj=file) as plain, tarfile.TarFile(fileobj=plain) as archive:
        for count, member in enumerate(archive, start=1):
            if count > limits.members:
                raise BadArchive(f"the archive has more than {limits.members:,} members")
            if is_cancelled():
                return
            path = os.path.join(target, *inner_path(member.name, limits.depth))
            if member.isdir():
                os.makedirs(path, mode=0o700, exist_ok=True)
            elif member.isreg():
                remaining_bytes = _write_file(archive, member, path, remaining_bytes)
            else:
                kind = "a link" if member.issym() or member.islnk() else "a device or pipe"
                raise BadArchive(
                    f"{member.name[:100]!r} is {kind}; only files and folders are accepted"
                )


def inner_path(name: str, depth: int = UnpackLimits().depth) -> tuple[str, ...]:
    """Components of a name that stays inside the folder; ``BadArchive`` for any other."""
    shown = repr(name[:100])
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", name):
        raise BadArchive(f"{shown} is not relative to the working directory")
    if any(ord(letter) < 32 or letter == "\x7f" for letter in name):
        raise BadArchive(f"{shown} contains control characters")
    if ".." in re.split(r"[/\\]", name):
        raise BadArchive(f"{shown} is outside the working directory")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if len(parts) > depth:
        raise BadArchive(f"{shown} is more than {depth} folders deep")
    return parts


def _write_file(
    archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, remaining_bytes: int
) -> int:
    """Write one file; returns the bytes that are still allowed."""
    source = archive.extractfile(member)
    if source is None:
        raise BadArchive(f"{member.name[:100]!r} cannot be read")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    mode = 0o700 if member.mode & 0o100 else 0o600
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, mode)
    except FileExistsError:
        raise BadArchive(f"{member.name[:100]!r} is in the archive twice") from None
    with source, os.fdopen(fd, "wb") as out:
        while chunk := source.read(CHUNK):
            remaining_bytes -= len(chunk)
            if remaining_bytes < 0:
                raise BadArchive("the archive unpacks to more than is allowed (20 GiB by default)")
            out.write(chunk)
    return remaining_bytes


class _Bounded(gzip.GzipFile):
    """A gzip file that refuses to read a large header into memory."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= LARGEST_READ:
            raise BadArchive(f"a header of the archive is larger than {LARGEST_READ >> 20} MiB")
        return super().read(size)
