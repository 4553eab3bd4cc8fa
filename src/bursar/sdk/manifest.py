"""The manifest of a checkpoint: its files with checksums, to detect torn ones.

The manifest is written last and contains a checksum of itself: a checkpoint without one, or with one that
does not match, was not finished or was damaged later.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from bursar.sdk.errors import CheckpointProblem, TornCheckpoint

MANIFEST = "manifest.json"
FORMAT = 1
_CHUNK_BYTES = 1 << 20


class FileEntry(NamedTuple):
    """One file of a checkpoint."""

    size_bytes: int
    sha256: str


class Manifest(NamedTuple):
    """Everything about a checkpoint except its content."""

    step: int
    at_ms: int
    """When the save began."""
    job_id: str
    attempt: int
    files: dict[str, FileEntry]

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.files.values())

    def to_text(self) -> str:
        """JSON, with a checksum of itself."""
        plain = {
            "format": FORMAT,
            "step": self.step,
            "at_ms": self.at_ms,
            "job_id": self.job_id,
            "attempt": self.attempt,
            "files": {
                name: {"bytes": entry.size_bytes, "sha256": entry.sha256}
                for name, entry in sorted(self.files.items())
            },
        }
        return json.dumps({"checkpoint": plain, "sha256": _json_sha256(plain)}, indent=1) + "\n"


def read_manifest(text: str | bytes) -> Manifest:
    """Parse a manifest; ``TornCheckpoint`` for anything that ``to_text`` did not write."""
    try:
        outer = json.loads(text)
        plain = outer["checkpoint"]
        if outer["sha256"] != _json_sha256(plain):
            raise TornCheckpoint("the manifest does not match its own checksum")
        if plain["format"] != FORMAT:
            raise TornCheckpoint(
                f"the manifest has format {plain['format']}; this version reads {FORMAT}"
            )
        files = {
            _require_inside(name): FileEntry(int(entry["bytes"]), str(entry["sha256"]))
            for name, entry in plain["files"].items()
        }
        return Manifest(
            int(plain["step"]), int(plain["at_ms"]), plain["job_id"], int(plain["attempt"]), files
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise TornCheckpoint("the manifest is truncated or damaged") from None


def _files_below(folder: Path) -> dict[str, Path]:
    """Every file below a folder, by its name in a manifest. A link to a folder counts as a file."""
    files: dict[str, Path] = {}
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in (*names, *links):
            path = Path(parent) / name
            relative = path.relative_to(folder).as_posix()
            if relative != MANIFEST:
                files[relative] = path
    return dict(sorted(files.items()))


def file_entries(folder: Path) -> dict[str, FileEntry]:
    """Sizes and checksums of the files of a folder. Links are rejected: their targets are not saved."""
    entries = {}
    for name, path in _files_below(folder).items():
        if path.is_symlink():
            raise CheckpointProblem(
                f"the checkpoint contains a link, {name}",
                fix="write the file itself: the target of a link is not saved",
            )
        entries[name] = file_entry(path)
    if not entries:
        raise CheckpointProblem(
            "nothing was written into the checkpoint's folder",
            fix="let write(folder) write at least one file",
        )
    return entries


def file_entry(path: Path) -> FileEntry:
    """Size and checksum of one file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileEntry(size, digest.hexdigest())


def verify(folder: Path, manifest: Manifest) -> None:
    """Raise ``TornCheckpoint`` unless a folder has exactly the files of its manifest.

    Sizes are compared first, because that is cheap.
    """
    files = _files_below(folder)
    for name, entry in manifest.files.items():
        path = files.get(name)
        if path is None:
            raise TornCheckpoint(f"{name} is missing")
        size = path.stat().st_size
        if size != entry.size_bytes:
            raise TornCheckpoint(f"{name} has {size:,} bytes instead of {entry.size_bytes:,}")
    for name in files:
        if name not in manifest.files:
            raise TornCheckpoint(f"{name} is not in the manifest")
    for name, entry in manifest.files.items():
        if file_entry(files[name]) != entry:
            raise TornCheckpoint(f"{name} does not match its checksum")


def _json_sha256(plain: object) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _require_inside(name: str) -> str:
    """Reject names outside the checkpoint's folder: manifests come from shared storage."""
    if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise TornCheckpoint(f"the manifest names {name[:60]!r}, which is outside the checkpoint")
    return name
