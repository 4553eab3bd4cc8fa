"""Uploads of archives for jobs; each is checked before it may be unpacked."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import tarfile
import zlib
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from starlette.responses import Response

from bursar.api import wire
from bursar.api.http.body import body_chunks, media_type_of
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, json_response
from bursar.api.http.route import Body, Route
from bursar.model.tenants.identity import Permission

FOLDER: Final = "bundles"
MARKS: Final = "uploaded-by"
"""A folder for each tenant, with an empty file for each archive that it has uploaded."""
MAX_MEMBERS: Final = 100_000
MAX_UNPACKED_BYTES: Final = 4 * 2**30
MAX_COMPRESSION: Final = 200
"""The largest ratio of unpacked to packed size; text reaches 10, a zip bomb 1,000."""
UNCHECKED_COMPRESSION_BYTES: Final = 64 * 2**20
"""Below this unpacked size the ratio is not checked."""
MAX_NAME_LENGTH: Final = 1_024

MAX_HEADER_BYTES: Final = 64 * 2**10
_HEADER_TYPES: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def bundle_path(state_folder: Path, sha256: str) -> Path | None:
    """The path of an archive; None for a text that is no SHA-256, so that no other path can be named."""
    return state_folder / FOLDER / sha256 if _SHA256.fullmatch(sha256) else None


def mark_path(state_folder: Path, sha256: str, tenant: str) -> Path:
    """The file that exists if this tenant has uploaded the archive.

    An archive is stored once for all tenants, but only a tenant that has uploaded it can see that it is
    stored: others could probe for known contents. Tenant names are hashed to be valid file names.
    """
    folder = hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()
    return state_folder / FOLDER / MARKS / folder / sha256


async def has_bundle(request: RequestContext, sha256: str) -> Path | None:
    """The path of the archive, if the caller's tenant or one below it has uploaded it."""
    folder = request.context.settings.state_folder
    path = bundle_path(folder, sha256)
    if path is None:
        return None
    tenants = await request.visible_tenants()
    marks = [mark_path(folder, sha256, one) for one in sorted({*tenants, request.caller.tenant})]
    return await request.context.run_blocking(_if_marked, path, marks)


def _if_marked(path: Path, marks: list[Path]) -> Path | None:
    return path if any(one.is_file() for one in marks) and path.is_file() else None


@Route("GET", "/v1/bundles/{sha256}", Permission.WRITE_JOBS, "It is stored.", takes_head=True)
async def get_bundle(request: RequestContext) -> wire.StoredBundle:
    """Whether your tenant has uploaded an archive already. HEAD works too."""
    sha256 = request.path["sha256"]
    path = await has_bundle(request, sha256)
    if path is None:
        raise HttpRefusal(
            f"your tenant has not uploaded the archive {sha256[:80]!r}.",
            fix="PUT it to /v1/bundles/{sha256}; 'bursar submit' does so automatically.",
            code="bundle-not-found",
        )
    size = await request.context.run_blocking(lambda: path.stat().st_size)
    return {"sha256": sha256, "size_bytes": size}


ARCHIVE = {wire.BUNDLE: {"type": "string", "format": "binary"}}


@Route(
    "PUT",
    "/v1/bundles/{sha256}",
    Permission.WRITE_JOBS,
    "It was stored already.",
    other_replies={201: "It was stored."},
    kind=wire.StoredBundle,
    body=Body(media=ARCHIVE, max_bytes=0),
    writes=True,
)
async def put_bundle(request: RequestContext) -> Response:
    """Upload a tar.gz archive; jobs refer to it by its SHA-256.

    Idempotent. The body is read in chunks, up to the limit of the settings.
    """
    sha256 = request.path["sha256"]
    final = bundle_path(request.context.settings.state_folder, sha256)
    if final is None:
        raise _bad(f"{sha256[:80]!r} is not a SHA-256.", "Use 64 lower-case hex digits.")
    media_type_of(request.headers, ARCHIVE)
    folder = final.parent
    await request.context.run_blocking(partial(folder.mkdir, 0o700, parents=True, exist_ok=True))
    part = folder / f".upload-{secrets.token_hex(8)}"
    try:
        size = await _receive(request, part, sha256)
        await request.context.run_blocking(check_archive, part)
        mark = mark_path(request.context.settings.state_folder, sha256, request.caller.tenant)
        is_new = await request.context.run_blocking(_store, part, final, mark)
    finally:
        await asyncio.shield(request.context.run_blocking(partial(part.unlink, missing_ok=True)))
    stored: wire.StoredBundle = {"sha256": sha256, "size_bytes": size}
    return json_response(stored, 201 if is_new else 200)


async def _receive(request: RequestContext, part: Path, sha256: str) -> int:
    digest, size = hashlib.sha256(), 0
    max_bytes = request.context.settings.max_bundle_bytes
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        async for chunk in body_chunks(request.receive, request.headers, max_bytes):
            digest.update(chunk)
            size += len(chunk)
            await request.context.run_blocking(file.write, chunk)
        await request.context.run_blocking(_sync, file)
    if digest.hexdigest() != sha256:
        raise _bad(
            f"the archive's SHA-256 is {digest.hexdigest()}, not {sha256}.",
            "Send it again; it was changed in transit, or the SHA-256 is wrong.",
        )
    return size


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _store(part: Path, final: Path, mark: Path) -> bool:
    """Renames the upload atomically; returns whether it is the tenant's first upload of it."""
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


# -- checks of archives ------------------------------------------------------------------------------


def check_archive(path: Path) -> None:
    """Refuses archives with anything but regular files and folders, and zip bombs.

    The archive is read once, member by member; nothing is unpacked to disk.
    """
    packed = path.stat().st_size
    max_bytes = min(MAX_UNPACKED_BYTES, max(UNCHECKED_COMPRESSION_BYTES, packed * MAX_COMPRESSION))
    try:
        with tarfile.open(path, mode="r|gz", tarinfo=_Member) as archive:
            _check_members(archive, max_bytes)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise _bad(
            "the archive is not a readable tar.gz.", "Make it with 'tar -czf' or 'bursar submit'."
        ) from error


class _Member(tarfile.TarInfo):
    """A member with headers of limited length, because tarfile reads them into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _HEADER_TYPES and self.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError("a header is too long")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return member


def _check_members(archive: tarfile.TarFile, max_bytes: int) -> None:
    total = 0
    for number, member in enumerate(archive, start=1):
        if number > MAX_MEMBERS:
            raise _bad(
                f"the archive has more than {MAX_MEMBERS:,} files.",
                "Leave out files that the job does not need.",
            )
        _check_member(member)
        total += member.size
        if total > max_bytes:
            raise _bad(
                f"the archive unpacks to more than {max_bytes:,} bytes.",
                "Leave large files out and read them from shared storage.",
            )


def _check_member(member: tarfile.TarInfo) -> None:
    name = member.name
    shown = repr(name[:80])
    if not (member.isreg() or member.isdir()):
        raise _bad(f"{shown} is a link or a device.", "Pack only regular files and folders.")
    if member.issparse():
        raise _bad(f"{shown} is a sparse file.", "Pack it as a regular file.")
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        raise _bad(f"{shown} leads out of the archive.", "Pack relative paths without '..'.")
    if len(name) > MAX_NAME_LENGTH:
        raise _bad(f"{shown} has a name of {len(name):,} characters.", "Shorten it.")


def _bad(problem: str, fix: str) -> HttpRefusal:
    return HttpRefusal(problem, fix=fix, code="bad-bundle")
