"""What a whole checkpoint consists of, with checksums, so that a torn one is known when it is seen.

The manifest is written last and carries a checksum of itself: a checkpoint without one, or with one that
does not fit, was not finished or was damaged afterwards.
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
_PIECE_BYTES = 1 << 20


class FileEntry(NamedTuple):
    """One file of a checkpoint."""

    size_bytes: int
    sha256: str


class Manifest(NamedTuple):
    """Everything that is known about a checkpoint without its content."""

    step: int
    at_ms: int
    """When the work was what is saved here."""
    job_id: str
    attempt: int
    files: dict[str, FileEntry]

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.files.values())

    def to_text(self) -> str:
        """JSON, with a checksum of its own."""
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
        return json.dumps({"checkpoint": plain, "sha256": _seal(plain)}, indent=1) + "\n"


def read_manifest(text: str | bytes) -> Manifest:
    """The way back; ``TornCheckpoint`` for anything that ``to_text`` did not write."""
    try:
        outer = json.loads(text)
        plain, seal = outer["checkpoint"], outer["sha256"]
        if seal != _seal(plain):
            raise TornCheckpoint("the manifest does not fit its own checksum")
        if plain["format"] != FORMAT:
            raise TornCheckpoint(
                f"the manifest has format {plain['format']}; this version reads {FORMAT}"
            )
        files = {
            _inner(name): FileEntry(int(entry["bytes"]), str(entry["sha256"]))
            for name, entry in plain["files"].items()
        }
        return Manifest(
            int(plain["step"]), int(plain["at_ms"]), plain["job_id"], int(plain["attempt"]), files
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise TornCheckpoint("the manifest is cut off or damaged") from None


def files_of(folder: Path) -> dict[str, Path]:
    """Every file below a folder, by its name in a manifest. A link to a folder counts as a file."""
    found: dict[str, Path] = {}
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in (*names, *links):
            path = Path(place) / name
            inner = path.relative_to(folder).as_posix()
            if inner != MANIFEST:
                found[inner] = path
    return dict(sorted(found.items()))


def describe(folder: Path) -> dict[str, FileEntry]:
    """Checksums of what was written. A link is refused: what it leads to would not be saved."""
    entries = {}
    for name, path in files_of(folder).items():
        if path.is_symlink():
            raise CheckpointProblem(
                f"the checkpoint contains a link, {name}",
                fix="write the file itself, for what a link leads to is not saved with it",
            )
        entries[name] = measure(path)
    if not entries:
        raise CheckpointProblem(
            "nothing was written into the checkpoint's folder",
            fix="let write(folder) put at least one file there",
        )
    return entries


def measure(path: Path) -> FileEntry:
    """Size and checksum of one file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return FileEntry(size, digest.hexdigest())


def check(folder: Path, manifest: Manifest) -> None:
    """Whether a folder holds exactly what its manifest says; sizes first, since they cost nothing."""
    found = files_of(folder)
    for name, entry in manifest.files.items():
        path = found.get(name)
        if path is None:
            raise TornCheckpoint(f"{name} is missing")
        size = path.stat().st_size
        if size != entry.size_bytes:
            raise TornCheckpoint(
                f"{name} has {size:,} bytes, its manifest says {entry.size_bytes:,}"
            )
    for name in found:
        if name not in manifest.files:
            raise TornCheckpoint(f"{name} is not in the manifest")
    for name, entry in manifest.files.items():
        if measure(found[name]) != entry:
            raise TornCheckpoint(f"{name} does not fit its checksum")


def _seal(plain: object) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _inner(name: str) -> str:
    """A manifest is read from shared storage: it must not name files outside its folder."""
    if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise TornCheckpoint(f"the manifest names {name[:60]!r}, which is outside the checkpoint")
    return name
