"""Copies of a directory in a target, for jobs that know nothing of Bursar.

Content is kept under its checksum, so that a file that did not change is not sent again. A snapshot is a
list of files by name; it is written last, and what no snapshot names any more is removed after that.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.manifest import FileEntry, Manifest, measure, read_manifest
from bursar.sdk.object_store import ObjectStore

SNAPSHOTS, CONTENT = "snapshots", "content"


class DirectoryScan(NamedTuple):
    """A file as it was seen: it is whole when it is the same at the next look."""

    size_bytes: int
    changed_ns: int


class Synced(NamedTuple):
    """What a sync came to."""

    files: int
    sent_bytes: int
    at_ms: int


class Mirror:
    """A directory and its snapshots. One process syncs; ``keep`` snapshots are kept."""

    def __init__(self, directory: Path, target: ObjectStore, keep: int) -> None:
        self._directory = directory
        self._target = target
        self._keep = keep
        self._files: dict[str, FileEntry] = {}
        self._seen: dict[str, DirectoryScan] = {}
        """As they were when they were last sent."""
        self._sent: set[str] = set()
        self.skipped: list[str] = []

    # -- coming back -------------------------------------------------------------------------------

    def restore(self) -> int | None:
        """Bring back the newest whole snapshot; how many files it has, or None when there is none.

        A file that is here already with the same content stays; one with other content is replaced,
        for it was not finished when the job was stopped.
        """
        self.skipped = []
        for serial in self._serials():
            try:
                manifest = read_manifest(self._target.read(_snapshot(serial)))
                for name, entry in manifest.files.items():
                    self._bring(name, entry)
            except (TornCheckpoint, FileNotFoundError) as torn:
                self.skipped.append(f"snapshot {serial}: {torn}")
                continue
            self._files = dict(manifest.files)
            self._sent = set(self._target.names(CONTENT))
            self._seen = {name: look for name, look in self.look().items() if name in self._files}
            return len(manifest.files)
        return None

    def _bring(self, name: str, entry: FileEntry) -> None:
        path = self._directory / name
        if path.is_file() and path.stat().st_size == entry.size_bytes and measure(path) == entry:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.bursar")
        self._target.get(_content(entry), aside)
        if measure(aside) != entry:
            aside.unlink()
            raise TornCheckpoint(f"{name} does not fit its checksum")
        os.replace(aside, path)

    # -- syncing -----------------------------------------------------------------------------------

    def look(self) -> dict[str, DirectoryScan]:
        """Every file as it is now, but hidden ones: writers hide what they have not finished."""
        found = {}
        for place, folders, names in os.walk(self._directory):
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            for name in sorted(names):
                path = Path(place) / name
                if name.startswith(".") or not path.is_file():
                    continue
                found[path.relative_to(self._directory).as_posix()] = _look_at(path)
        return found

    def sync(
        self, settled: dict[str, DirectoryScan], present: dict[str, DirectoryScan]
    ) -> Synced | None:
        """Send what settled. What is not settled stays in the snapshot as it was last sent.

        A folder directly in the directory is one thing: it is sent when all of it has settled, so that
        half a checkpoint of several files never comes back.
        """
        unsettled = {_thing(name) for name in present if settled.get(name) != present[name]}
        known = dict(self._files)
        files = {name: entry for name, entry in known.items() if _thing(name) in unsettled}
        sent_bytes = 0
        for name, look in sorted(present.items()):
            if _thing(name) in unsettled:
                continue
            entry = known.get(name)
            if entry is None or self._seen.get(name) != look:
                entry, sent = self._send(name, look)
                sent_bytes += sent
                self._seen[name] = look
            files[name] = entry
        if files == self._files or not files:
            return None
        at_ms = max(look.changed_ns for look in self._seen.values()) // 1_000_000
        self._publish(Manifest(0, at_ms, os.environ.get("BURSAR_JOB_ID", ""), 0, files))
        self._files = files
        self._seen = {name: look for name, look in self._seen.items() if name in files}
        return Synced(len(files), sent_bytes, at_ms)

    def _send(self, name: str, look: DirectoryScan) -> tuple[FileEntry, int]:
        path = self._directory / name
        entry = measure(path)
        content = _content(entry)
        known = content in self._sent
        if not known:
            self._target.put(path, content)
        if _look_at(path) != look:
            if not known:
                self._target.remove(content)
            raise BlockingIOError(f"{name} changed while it was sent")
        self._sent.add(content)
        return entry, 0 if known else entry.size_bytes

    def _publish(self, manifest: Manifest) -> None:
        serials = self._serials()
        serial = serials[0] + 1 if serials else 1
        self._target.write(_snapshot(serial), manifest.to_text().encode())
        self._make_room([serial, *serials])

    def _make_room(self, serials: list[int]) -> None:
        kept: set[str] = set()
        for serial in serials[: self._keep]:
            try:
                manifest = read_manifest(self._target.read(_snapshot(serial)))
            except (TornCheckpoint, FileNotFoundError):
                continue
            kept |= {_content(entry) for entry in manifest.files.values()}
        for serial in serials[self._keep :]:
            self._target.remove(_snapshot(serial))
        for name in self._target.names(CONTENT):
            if name not in kept:
                self._target.remove(name)
        self._sent = kept

    def _serials(self) -> list[int]:
        names = [name.removeprefix(f"{SNAPSHOTS}/") for name in self._target.names(SNAPSHOTS)]
        found = [name.removesuffix(".json") for name in names]
        return sorted((int(name) for name in found if name.isdecimal()), reverse=True)


def settled_since(
    first: dict[str, DirectoryScan], last: dict[str, DirectoryScan], quiet_seconds: float
) -> dict[str, DirectoryScan]:
    """Files that two looks saw alike, and that have not been written to for so long."""
    latest_ns = time.time_ns() - int(quiet_seconds * 1e9)
    return {
        name: look
        for name, look in last.items()
        if first.get(name) == look and look.changed_ns <= latest_ns
    }


def _look_at(path: Path) -> DirectoryScan:
    status = path.stat()
    return DirectoryScan(status.st_size, status.st_mtime_ns)


def _thing(name: str) -> str:
    return name.split("/")[0]


def _snapshot(serial: int) -> str:
    return f"{SNAPSHOTS}/{serial:08d}.json"


def _content(entry: FileEntry) -> str:
    return f"{CONTENT}/{entry.sha256}"
