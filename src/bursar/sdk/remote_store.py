"""Checkpoints in object storage: the manifest is written last and removed first.

Objects cannot be renamed, so a checkpoint exists when its manifest does. An interrupted upload has none and
is never resumed from; its serial number is not used again.
"""

from __future__ import annotations

import os
from pathlib import Path

from bursar.sdk.checkpoint_store import (
    CheckpointName,
    Origin,
    PendingCheckpoint,
    newest_first,
    next_entry,
    require_same_step,
)
from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.manifest import MANIFEST, Manifest, file_entries, read_manifest, verify
from bursar.sdk.object_store import ObjectStore


class RemoteCheckpointStore:
    """Checkpoints in an object store. Files pass through a local scratch folder."""

    def __init__(self, objects: ObjectStore) -> None:
        import tempfile

        self._objects = objects
        self.location = objects.location
        self._scratch = tempfile.TemporaryDirectory(prefix="bursar-", ignore_cleanup_errors=True)

    def entries(self) -> list[CheckpointName]:
        names = {name.split("/")[0] for name in self._objects.names()}
        return newest_first(sorted(names))

    def begin(self, step: int, at_ms: int) -> PendingCheckpoint:
        return PendingCheckpoint(step, at_ms, self._new_folder())

    def commit(self, pending: PendingCheckpoint, origin: Origin) -> tuple[CheckpointName, Manifest]:
        manifest = Manifest(pending.step, pending.at_ms, *origin, file_entries(pending.path))
        entry = next_entry(self.entries(), pending.step)
        for name in manifest.files:
            self._objects.put(pending.path / name, f"{entry.name}/{name}")
        self._objects.write(f"{entry.name}/{MANIFEST}", manifest.to_text().encode())
        self.abandon(pending)
        return entry, manifest

    def abandon(self, pending: PendingCheckpoint) -> None:
        import shutil

        shutil.rmtree(pending.path, ignore_errors=True)

    def peek(self, entry: CheckpointName) -> Manifest:
        try:
            text = self._objects.read(f"{entry.name}/{MANIFEST}")
        except FileNotFoundError:
            raise TornCheckpoint("it has no manifest: its upload was interrupted") from None
        return require_same_step(read_manifest(text), entry)

    def fetch(self, entry: CheckpointName) -> tuple[Manifest, Path]:
        manifest = self.peek(entry)
        folder = self._new_folder()
        for name in manifest.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._objects.get(f"{entry.name}/{name}", path)
            except FileNotFoundError:
                raise TornCheckpoint(f"{name} is missing") from None
        verify(folder, manifest)
        return manifest, folder

    def remove(self, entry: CheckpointName) -> None:
        names = self._objects.names(entry.name)
        for name in sorted(names, key=lambda name: (name != f"{entry.name}/{MANIFEST}", name)):
            self._objects.remove(name)

    def clear_leftovers(self) -> None:
        """Remove uploads without a manifest that are older than the newest complete checkpoint."""
        files: dict[str, set[str]] = {}
        for name in self._objects.names():
            head, _, rest = name.partition("/")
            files.setdefault(head, set()).add(rest)
        entries = newest_first(sorted(files))
        complete = [entry for entry in entries if MANIFEST in files[entry.name]]
        for entry in entries:
            if complete and entry < complete[0] and entry not in complete:
                self.remove(entry)

    def close(self) -> None:
        self._scratch.cleanup()

    def _new_folder(self) -> Path:
        folder = Path(self._scratch.name) / os.urandom(4).hex()
        folder.mkdir()
        return folder
