"""Copies of a directory in an object store, for jobs that do not use the SDK.

Content is stored under its checksum, so an unchanged file is not uploaded again. A snapshot lists files by
name; it is written last, and content that no snapshot lists is removed after that.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.manifest import FileEntry, Manifest, file_entry, read_manifest
from bursar.sdk.object_store import ObjectStore

SNAPSHOTS, CONTENT = "snapshots", "content"


class FileState(NamedTuple):
    """Size and modification time of a file; it is complete if the next scan finds the same."""

    size_bytes: int
    changed_ns: int


class Synced(NamedTuple):
    """The result of a sync."""

    files: int
    uploaded_bytes: int
    at_ms: int


class Mirror:
    """A directory and its last ``keep`` snapshots. One process syncs."""

    def __init__(self, directory: Path, objects: ObjectStore, keep: int) -> None:
        self._directory = directory
        self._objects = objects
        self._keep = keep
        self._files: dict[str, FileEntry] = {}
        self._uploaded_states: dict[str, FileState] = {}
        """States of files when they were last uploaded."""
        self._stored: set[str] = set()
        self.skipped: list[str] = []

    # -- restoring ---------------------------------------------------------------------------------

    def restore(self) -> int | None:
        """Restore the newest complete snapshot; returns its number of files, or None.

        An existing file with the same content stays; one with other content is replaced, because it was
        not finished when the job was stopped.
        """
        self.skipped = []
        for serial in self._serials():
            try:
                manifest = read_manifest(self._objects.read(_snapshot(serial)))
                for name, entry in manifest.files.items():
                    self._restore_file(name, entry)
            except (TornCheckpoint, FileNotFoundError) as torn:
                self.skipped.append(f"snapshot {serial}: {torn}")
                continue
            self._files = dict(manifest.files)
            self._stored = set(self._objects.names(CONTENT))
            self._uploaded_states = {
                name: state for name, state in self.scan().items() if name in self._files
            }
            return len(manifest.files)
        return None

    def _restore_file(self, name: str, entry: FileEntry) -> None:
        path = self._directory / name
        if path.is_file() and path.stat().st_size == entry.size_bytes and file_entry(path) == entry:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.bursar")
        self._objects.get(_content(entry), temporary)
        if file_entry(temporary) != entry:
            temporary.unlink()
            raise TornCheckpoint(f"{name} does not match its checksum")
        os.replace(temporary, path)

    # -- syncing -----------------------------------------------------------------------------------

    def scan(self) -> dict[str, FileState]:
        """States of all files except hidden ones, which writers use for unfinished files."""
        states = {}
        for parent, folders, names in os.walk(self._directory):
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            for name in sorted(names):
                path = Path(parent) / name
                if name.startswith(".") or not path.is_file():
                    continue
                states[path.relative_to(self._directory).as_posix()] = _file_state(path)
        return states

    def sync(self, settled: dict[str, FileState], present: dict[str, FileState]) -> Synced | None:
        """Upload settled files. Others stay in the snapshot as they were last uploaded.

        A top-level folder is uploaded only when all of it has settled, so that a checkpoint of several
        files is never restored in part.
        """
        unsettled = {_top_level(name) for name in present if settled.get(name) != present[name]}
        known = dict(self._files)
        files = {name: entry for name, entry in known.items() if _top_level(name) in unsettled}
        uploaded_bytes = 0
        for name, state in sorted(present.items()):
            if _top_level(name) in unsettled:
                continue
            entry = known.get(name)
            if entry is None or self._uploaded_states.get(name) != state:
                entry, size_bytes = self._upload(name, state)
                uploaded_bytes += size_bytes
                self._uploaded_states[name] = state
            files[name] = entry
        if files == self._files or not files:
            return None
        at_ms = max(state.changed_ns for state in self._uploaded_states.values()) // 1_000_000
        self._publish(Manifest(0, at_ms, os.environ.get("BURSAR_JOB_ID", ""), 0, files))
        self._files = files
        self._uploaded_states = {
            name: state for name, state in self._uploaded_states.items() if name in files
        }
        return Synced(len(files), uploaded_bytes, at_ms)

    def _upload(self, name: str, state: FileState) -> tuple[FileEntry, int]:
        path = self._directory / name
        entry = file_entry(path)
        content = _content(entry)
        is_stored = content in self._stored
        if not is_stored:
            self._objects.put(path, content)
        if _file_state(path) != state:
            if not is_stored:
                self._objects.remove(content)
            raise BlockingIOError(f"{name} changed while it was uploaded")
        self._stored.add(content)
        return entry, 0 if is_stored else entry.size_bytes

    def _publish(self, manifest: Manifest) -> None:
        serials = self._serials()
        serial = serials[0] + 1 if serials else 1
        self._objects.write(_snapshot(serial), manifest.to_text().encode())
        self._remove_old([serial, *serials])

    def _remove_old(self, serials: list[int]) -> None:
        referenced: set[str] = set()
        for serial in serials[: self._keep]:
            try:
                manifest = read_manifest(self._objects.read(_snapshot(serial)))
            except (TornCheckpoint, FileNotFoundError):
                continue
            referenced |= {_content(entry) for entry in manifest.files.values()}
        for serial in serials[self._keep :]:
            self._objects.remove(_snapshot(serial))
        for name in self._objects.names(CONTENT):
            if name not in referenced:
                self._objects.remove(name)
        self._stored = referenced

    def _serials(self) -> list[int]:
        names = [name.removeprefix(f"{SNAPSHOTS}/") for name in self._objects.names(SNAPSHOTS)]
        serials = [name.removesuffix(".json") for name in names]
        return sorted((int(serial) for serial in serials if serial.isdecimal()), reverse=True)


def settled_since(
    first: dict[str, FileState], last: dict[str, FileState], quiet_seconds: float
) -> dict[str, FileState]:
    """Files that are equal in two scans and were last written ``quiet_seconds`` ago or earlier."""
    latest_ns = time.time_ns() - int(quiet_seconds * 1e9)
    return {
        name: state
        for name, state in last.items()
        if first.get(name) == state and state.changed_ns <= latest_ns
    }


def _file_state(path: Path) -> FileState:
    status = path.stat()
    return FileState(status.st_size, status.st_mtime_ns)


def _top_level(name: str) -> str:
    return name.split("/")[0]


def _snapshot(serial: int) -> str:
    return f"{SNAPSHOTS}/{serial:08d}.json"


def _content(entry: FileEntry) -> str:
    return f"{CONTENT}/{entry.sha256}"
