"""Checkpoints in object storage: files first, the manifest last, and on removal the manifest first.

Nothing there can be renamed, so a checkpoint is one when its manifest is there. An upload that was cut
off has none and is never resumed from; its number is not used again.
"""

from __future__ import annotations

import os
from pathlib import Path

from bursar.sdk.checkpoint_store import (
    CheckpointName,
    Origin,
    PendingCheckpoint,
    fitting,
    newest_first,
    next_entry,
)
from bursar.sdk.errors import TornCheckpoint
from bursar.sdk.manifest import MANIFEST, Manifest, check, describe, read_manifest
from bursar.sdk.object_store import ObjectStore


class RemoteCheckpointStore:
    """Checkpoints in a target. Files pass through a scratch folder of this machine."""

    def __init__(self, target: ObjectStore) -> None:
        import tempfile

        self._target = target
        self.where = target.where
        self._scratch = tempfile.TemporaryDirectory(prefix="bursar-", ignore_cleanup_errors=True)

    def entries(self) -> list[CheckpointName]:
        names = {name.split("/")[0] for name in self._target.names()}
        return newest_first(sorted(names))

    def begin(self, step: int, at_ms: int) -> PendingCheckpoint:
        return PendingCheckpoint(step, at_ms, self._new_folder())

    def commit(self, draft: PendingCheckpoint, origin: Origin) -> tuple[CheckpointName, Manifest]:
        manifest = Manifest(draft.step, draft.at_ms, *origin, describe(draft.path))
        entry = next_entry(self.entries(), draft.step)
        for name in manifest.files:
            self._target.put(draft.path / name, f"{entry.name}/{name}")
        self._target.write(f"{entry.name}/{MANIFEST}", manifest.to_text().encode())
        self.abandon(draft)
        return entry, manifest

    def abandon(self, draft: PendingCheckpoint) -> None:
        import shutil

        shutil.rmtree(draft.path, ignore_errors=True)

    def peek(self, entry: CheckpointName) -> Manifest:
        try:
            text = self._target.read(f"{entry.name}/{MANIFEST}")
        except FileNotFoundError:
            raise TornCheckpoint("it has no manifest: its upload was cut off") from None
        return fitting(read_manifest(text), entry)

    def fetch(self, entry: CheckpointName) -> tuple[Manifest, Path]:
        manifest = self.peek(entry)
        folder = self._new_folder()
        for name in manifest.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._target.get(f"{entry.name}/{name}", path)
            except FileNotFoundError:
                raise TornCheckpoint(f"{name} is missing") from None
        check(folder, manifest)
        return manifest, folder

    def remove(self, entry: CheckpointName) -> None:
        names = self._target.names(entry.name)
        for name in sorted(names, key=lambda name: (name != f"{entry.name}/{MANIFEST}", name)):
            self._target.remove(name)

    def clear_leftovers(self) -> None:
        """What has no manifest and stands behind one that has: nobody is still uploading it."""
        found: dict[str, set[str]] = {}
        for name in self._target.names():
            head, _, rest = name.partition("/")
            found.setdefault(head, set()).add(rest)
        entries = newest_first(sorted(found))
        whole = [entry for entry in entries if MANIFEST in found[entry.name]]
        for entry in entries:
            if whole and entry < whole[0] and entry not in whole:
                self.remove(entry)

    def close(self) -> None:
        self._scratch.cleanup()

    def _new_folder(self) -> Path:
        folder = Path(self._scratch.name) / os.urandom(4).hex()
        folder.mkdir()
        return folder
