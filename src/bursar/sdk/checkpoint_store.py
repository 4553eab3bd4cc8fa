"""Where checkpoints stand. ``FolderCheckpointStore`` keeps them in a folder that this machine can rename in.

A checkpoint is written aside, synced with its manifest, and renamed into place: whoever looks sees all
of it or nothing. Names carry a serial number, so that the newest is known without opening any.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple, Protocol

from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.manifest import (
    MANIFEST,
    Manifest,
    check,
    describe,
    read_manifest,
)

NAME = re.compile(r"(\d{8,})-step-(\d+)")
ASIDE, GONE = ".aside-", ".gone-"


class CheckpointName(NamedTuple):
    """A checkpoint by its name alone; entries sort by age."""

    serial: int
    step: int

    @property
    def name(self) -> str:
        return f"{self.serial:08d}-step-{self.step}"


class PendingCheckpoint(NamedTuple):
    """A checkpoint that is being written. It is none until it is committed."""

    step: int
    at_ms: int
    path: Path


class Origin(NamedTuple):
    """Who saves: kept in every manifest."""

    job_id: str
    attempt: int


class CheckpointStore(Protocol):
    """What ``Run`` needs of a place for checkpoints."""

    where: str

    def entries(self) -> list[CheckpointName]:
        """What may be a checkpoint, newest first. Nothing is opened."""

    def begin(self, step: int, at_ms: int) -> PendingCheckpoint:
        """A folder to write into."""

    def commit(self, draft: PendingCheckpoint, origin: Origin) -> tuple[CheckpointName, Manifest]:
        """Make a draft the newest checkpoint, durably. What is in it must not change any more."""

    def abandon(self, draft: PendingCheckpoint) -> None: ...

    def peek(self, entry: CheckpointName) -> Manifest:
        """Its manifest, or ``TornCheckpoint``. The files are not looked at."""

    def fetch(self, entry: CheckpointName) -> tuple[Manifest, Path]:
        """Its content in a folder of this machine, compared with its checksums; or ``TornCheckpoint``."""

    def remove(self, entry: CheckpointName) -> None:
        """So that nothing half removed can be taken for a checkpoint."""

    def clear_leftovers(self) -> None:
        """Remove what earlier runs began and did not finish."""

    def close(self) -> None: ...


class FolderCheckpointStore:
    """Checkpoints in a folder of this machine, or of a file system that it has mounted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)
        folder.mkdir(parents=True, exist_ok=True)

    def entries(self) -> list[CheckpointName]:
        return newest_first(os.listdir(self._folder))

    def begin(self, step: int, at_ms: int) -> PendingCheckpoint:
        name = f"{ASIDE}{os.getpid()}-{os.urandom(4).hex()}"
        path = self._folder / name
        path.mkdir()
        return PendingCheckpoint(step, at_ms, path)

    def commit(self, draft: PendingCheckpoint, origin: Origin) -> tuple[CheckpointName, Manifest]:
        manifest = Manifest(draft.step, draft.at_ms, *origin, describe(draft.path))
        for name in manifest.files:
            sync(draft.path / name)
        (draft.path / MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
        sync(draft.path / MANIFEST)
        for place, _, _ in os.walk(draft.path):
            sync(Path(place))
        entry = self._put_in_place(draft)
        sync(self._folder)
        return entry, manifest

    def _put_in_place(self, draft: PendingCheckpoint) -> CheckpointName:
        """The next free number. A folder with files in it is never renamed over."""
        entry = next_entry(self.entries(), draft.step)
        while True:
            try:
                os.rename(draft.path, self._folder / entry.name)
                return entry
            except OSError:
                if not (self._folder / entry.name).exists():
                    raise
                entry = CheckpointName(entry.serial + 1, draft.step)

    def abandon(self, draft: PendingCheckpoint) -> None:
        _remove_tree(draft.path)

    def peek(self, entry: CheckpointName) -> Manifest:
        try:
            text = (self._folder / entry.name / MANIFEST).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise TornCheckpoint("it has no manifest") from None
        return fitting(read_manifest(text), entry)

    def fetch(self, entry: CheckpointName) -> tuple[Manifest, Path]:
        manifest = self.peek(entry)
        folder = self._folder / entry.name
        try:
            check(folder, manifest)
        except FileNotFoundError as gone:
            raise TornCheckpoint(f"{gone.filename} went away while it was read") from None
        return manifest, folder

    def remove(self, entry: CheckpointName) -> None:
        aside = self._folder / f"{GONE}{os.urandom(4).hex()}"
        try:
            os.rename(self._folder / entry.name, aside)
        except FileNotFoundError:
            return
        _remove_tree(aside)

    def clear_leftovers(self) -> None:
        for name in sorted(os.listdir(self._folder)):
            if name.startswith((ASIDE, GONE)):
                _remove_tree(self._folder / name)

    def close(self) -> None:
        """Nothing is held."""


def newest_first(names: list[str]) -> list[CheckpointName]:
    """The names that are those of checkpoints, in order."""
    found = [NAME.fullmatch(name) for name in names]
    entries = [CheckpointName(int(match[1]), int(match[2])) for match in found if match]
    return sorted(entries, reverse=True)


def next_entry(entries: list[CheckpointName], step: int) -> CheckpointName:
    """Behind everything that is there, torn or whole."""
    return CheckpointName(entries[0].serial + 1 if entries else 1, step)


def fitting(manifest: Manifest, entry: CheckpointName) -> Manifest:
    """A manifest that lies in another checkpoint's place is not believed."""
    if manifest.step != entry.step:
        raise TornCheckpoint(f"its manifest is that of step {manifest.step}")
    return manifest


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a loss of power."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove_tree(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
