"""The protocol of checkpoint stores, and the store in a folder.

A checkpoint is written under a temporary name, synced with its manifest, and renamed: readers see all of it
or nothing. Names contain a serial number, so that the newest is known without opening any.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, Protocol

from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.manifest import MANIFEST, Manifest, file_entries, read_manifest, verify

NAME = re.compile(r"(\d{8,})-step-(\d+)")
PENDING_PREFIX, REMOVED_PREFIX = ".pending-", ".removed-"


class CheckpointName(NamedTuple):
    """The name of a checkpoint; names sort by age."""

    serial: int
    step: int

    @property
    def name(self) -> str:
        return f"{self.serial:08d}-step-{self.step}"


class PendingCheckpoint(NamedTuple):
    """A checkpoint that is being written; becomes one when committed."""

    step: int
    at_ms: int
    path: Path


class Origin(NamedTuple):
    """The job and attempt that save; stored in every manifest."""

    job_id: str
    attempt: int


class CheckpointStore(Protocol):
    """What ``Run`` needs of a store."""

    location: str

    def entries(self) -> list[CheckpointName]:
        """Names of possible checkpoints, newest first. Nothing is opened."""

    def begin(self, step: int, at_ms: int) -> PendingCheckpoint:
        """A new folder to write into."""

    def commit(self, pending: PendingCheckpoint, origin: Origin) -> tuple[CheckpointName, Manifest]:
        """Durably make this the newest checkpoint. Its files must not change any more."""

    def abandon(self, pending: PendingCheckpoint) -> None: ...

    def peek(self, entry: CheckpointName) -> Manifest:
        """The manifest, or ``TornCheckpoint``. The files are not checked."""

    def fetch(self, entry: CheckpointName) -> tuple[Manifest, Path]:
        """The manifest and a local folder with the verified files; or ``TornCheckpoint``."""

    def remove(self, entry: CheckpointName) -> None:
        """Remove it such that a partly removed one is never taken for a checkpoint."""

    def clear_leftovers(self) -> None:
        """Remove unfinished saves of earlier runs."""

    def close(self) -> None: ...


class FolderCheckpointStore:
    """Checkpoints in a local folder or on a mounted file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.location = str(folder)
        folder.mkdir(parents=True, exist_ok=True)

    def entries(self) -> list[CheckpointName]:
        return newest_first(os.listdir(self._folder))

    def begin(self, step: int, at_ms: int) -> PendingCheckpoint:
        name = f"{PENDING_PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        path = self._folder / name
        path.mkdir()
        return PendingCheckpoint(step, at_ms, path)

    def commit(self, pending: PendingCheckpoint, origin: Origin) -> tuple[CheckpointName, Manifest]:
        manifest = Manifest(pending.step, pending.at_ms, *origin, file_entries(pending.path))
        for name in manifest.files:
            sync(pending.path / name)
        (pending.path / MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
        sync(pending.path / MANIFEST)
        for folder, _, _ in os.walk(pending.path):
            sync(Path(folder))
        entry = self._rename(pending)
        sync(self._folder)
        return entry, manifest

    def _rename(self, pending: PendingCheckpoint) -> CheckpointName:
        """Rename to the next free serial number. Rename never replaces a folder with files."""
        entry = next_entry(self.entries(), pending.step)
        while True:
            try:
                os.rename(pending.path, self._folder / entry.name)
                return entry
            except OSError:
                if not (self._folder / entry.name).exists():
                    raise
                entry = CheckpointName(entry.serial + 1, pending.step)

    def abandon(self, pending: PendingCheckpoint) -> None:
        _remove_tree(pending.path)

    def peek(self, entry: CheckpointName) -> Manifest:
        try:
            text = (self._folder / entry.name / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise TornCheckpoint("it has no manifest") from None
        return require_same_step(read_manifest(text), entry)

    def fetch(self, entry: CheckpointName) -> tuple[Manifest, Path]:
        manifest = self.peek(entry)
        folder = self._folder / entry.name
        try:
            verify(folder, manifest)
        except FileNotFoundError as gone:
            raise TornCheckpoint(f"{gone.filename} disappeared while it was read") from None
        return manifest, folder

    def remove(self, entry: CheckpointName) -> None:
        removed = self._folder / f"{REMOVED_PREFIX}{os.urandom(4).hex()}"
        try:
            os.rename(self._folder / entry.name, removed)
        except FileNotFoundError:
            return
        _remove_tree(removed)

    def clear_leftovers(self) -> None:
        for name in sorted(os.listdir(self._folder)):
            if name.startswith((PENDING_PREFIX, REMOVED_PREFIX)):
                _remove_tree(self._folder / name)

    def close(self) -> None:
        """Nothing to release."""


def newest_first(names: list[str]) -> list[CheckpointName]:
    """The checkpoint names among ``names``, newest first."""
    matches = [NAME.fullmatch(name) for name in names]
    entries = [CheckpointName(int(match[1]), int(match[2])) for match in matches if match]
    return sorted(entries, reverse=True)


def next_entry(entries: list[CheckpointName], step: int) -> CheckpointName:
    """The next serial number, after all torn and complete checkpoints."""
    return CheckpointName(entries[0].serial + 1 if entries else 1, step)


def require_same_step(manifest: Manifest, entry: CheckpointName) -> Manifest:
    """Reject the manifest of another checkpoint."""
    if manifest.step != entry.step:
        raise TornCheckpoint(f"its manifest is that of step {manifest.step}")
    return manifest


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove_tree(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
