"""Archives that jobs bring along: checked byte by byte before anybody may unpack them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Final

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.body import media_type_of, pieces_of
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, answer
from bursar.control.access.permissions import visible_tenants

FOLDER: Final = "bundles"
MARKS: Final = "uploaded-by"
"""In it a folder for each tenant, with an empty file for each archive that it has uploaded."""
MOST_MEMBERS: Final = 100_000
MOST_UNPACKED_BYTES: Final = 4 * 2**30
MOST_GROWTH: Final = 200
"""An archive may unpack to so many times its size; text compresses to a tenth, a bomb to a thousandth."""
GROWTH_FREE_BYTES: Final = 64 * 2**20
"""Up to here growth does not matter."""
LONGEST_NAME: Final = 1_024

MOST_HEADER_BYTES: Final = 64 * 2**10
_TEXT_TYPES: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def bundle_path(state_folder: Path, sha256: str) -> Path | None:
    """Where an archive is kept; None for what is no SHA-256, so that no other path can be named."""
    return state_folder / FOLDER / sha256 if _SHA256.fullmatch(sha256) else None


def mark_path(state_folder: Path, sha256: str, tenant: str) -> Path:
    """What is there when somebody of this tenant has uploaded the archive.

    An archive is kept once, whoever sent it. That it is here is told only to those who sent it: whoever
    could ask for any name would learn what others work on. Tenants are hashed because a name may be
    anything, and a file name may not.
    """
    folder = hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()
    return state_folder / FOLDER / MARKS / folder / sha256


async def has_bundle(call: RequestContext, sha256: str) -> Path | None:
    """The archive, if somebody of the caller's tenant or below has uploaded it."""
    folder = call.desk.settings.state_folder
    path = bundle_path(folder, sha256)
    if path is None:
        return None
    reach = visible_tenants(call.who, (await call.desk.ground()).tree)
    marks = [mark_path(folder, sha256, one) for one in sorted({*reach, call.who.tenant})]
    return await call.desk.read(_marked, path, marks)


def _marked(path: Path, marks: list[Path]) -> Path | None:
    return path if any(one.is_file() for one in marks) and path.is_file() else None


async def get_bundle(call: RequestContext) -> Response:
    """Whether an archive need not be sent again."""
    sha256 = call.path["sha256"]
    path = await has_bundle(call, sha256)
    if path is None:
        raise HttpRefusal(
            f"nobody of your tenant has uploaded the archive {sha256[:80]!r}.",
            fix="PUT it to /v1/bundles/{sha256}; bursar submit does so by itself.",
            code="bundle-not-found",
        )
    size = await call.desk.read(lambda: path.stat().st_size)
    stored: wire.StoredBundle = {"sha256": sha256, "size_bytes": size}
    return answer(stored)


async def put_bundle(call: RequestContext) -> Response:
    """Keep an archive under its SHA-256. Sending it again changes nothing."""
    sha256 = call.path["sha256"]
    final = bundle_path(call.desk.settings.state_folder, sha256)
    body = call.route.body
    if final is None or body is None:
        raise _bad(f"{sha256[:80]!r} is not a SHA-256.", "Name it by 64 lower-case hex digits.")
    media_type_of(call.headers, body.media)
    folder = final.parent
    await call.desk.read(_make_folder, folder)
    part = folder / f".upload-{secrets.token_hex(8)}"
    try:
        size = await _receive(call, part, sha256)
        await call.desk.read(check_archive, part)
        mark = mark_path(call.desk.settings.state_folder, sha256, call.who.tenant)
        is_new = await call.desk.read(_settle, part, final, mark)
    finally:
        await asyncio.shield(call.desk.read(_remove, part))
    stored: wire.StoredBundle = {"sha256": sha256, "size_bytes": size}
    return answer(stored, 201 if is_new else 200)


async def _receive(call: RequestContext, part: Path, sha256: str) -> int:
    digest, size = hashlib.sha256(), 0
    most = call.desk.settings.max_bundle_bytes
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        async for piece in pieces_of(call.receive, call.headers, most):
            digest.update(piece)
            size += len(piece)
            await call.desk.read(file.write, piece)
        await call.desk.read(_sync, file.fileno(), file)
    if digest.hexdigest() != sha256:
        raise _bad(
            f"the archive's SHA-256 is {digest.hexdigest()}, not {sha256}.",
            "Send it again; it was changed on the way or named wrongly.",
        )
    return size


def _sync(number: int, file: object) -> None:
    flush = getattr(file, "flush", None)
    if flush is not None:
        flush()
    os.fsync(number)


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _settle(part: Path, final: Path, mark: Path) -> bool:
    """Give the archive its name at once, whole; whether nobody of the tenant had sent it before."""
    os.replace(part, final)
    _sync_folder(final.parent)
    is_new = not mark.exists()
    mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark.touch(mode=0o600)
    _sync_folder(mark.parent)
    return is_new


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)


# -- what is in it -----------------------------------------------------------------------------------


def check_archive(path: Path) -> None:
    """Refuse anything but plain files and folders inside the archive, and archives that explode.

    Nothing is unpacked and nothing is kept: the archive is read through once, member by member.
    """
    packed = path.stat().st_size
    most = min(MOST_UNPACKED_BYTES, max(GROWTH_FREE_BYTES, packed * MOST_GROWTH))
    try:
        with tarfile.open(path, mode="r|gz", tarinfo=_Member) as archive:
            _check_members(archive, most)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise _bad(
            "the archive cannot be read as tar.gz.", "Make it with tar -czf, or by bursar submit."
        ) from error


class _Member(tarfile.TarInfo):
    """A member whose name and attributes are of a sane length: tarfile reads those into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _TEXT_TYPES and self.size > MOST_HEADER_BYTES:
            raise tarfile.ReadError("a header is too long")
        made: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return made


def _check_members(archive: tarfile.TarFile, most: int) -> None:
    total = 0
    for number, member in enumerate(archive, start=1):
        if number > MOST_MEMBERS:
            raise _bad(f"it has more than {MOST_MEMBERS:,} files.", "Leave out what is not needed.")
        _check_member(member)
        total += member.size
        if total > most:
            raise _bad(
                f"it unpacks to more than {most:,} bytes.",
                "Leave large files out and read them from shared storage.",
            )


def _check_member(member: tarfile.TarInfo) -> None:
    name = member.name
    shown = repr(name[:80])
    if not (member.isreg() or member.isdir()):
        raise _bad(f"{shown} is a link or a device.", "Pack plain files and folders only.")
    if member.issparse():
        raise _bad(f"{shown} is a sparse file.", "Pack it as a plain file.")
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        raise _bad(f"{shown} leads out of the archive.", "Pack relative paths without '..'.")
    if len(name) > LONGEST_NAME:
        raise _bad(f"{shown} has a name of {len(name):,} characters.", "Shorten it.")


def _bad(problem: str, fix: str) -> HttpRefusal:
    return HttpRefusal(problem, fix=fix, code="bad-bundle")
