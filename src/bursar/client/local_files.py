"""Finds the local files that a job document names, and how each is uploaded.

A mounted folder becomes a separate bundle. A single file is added to the bundle of the working directory, at
its mount path, because a bundle is always a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bursar.client.document import SENT, Document
from bursar.client.errors import BadBundle


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """``working`` are the files of the working directory; empty if it is unchanged. ``mounts`` are the other
    mounts, with a path for each to upload; None if they are unchanged."""

    working: Mapping[str, bytes | Path]
    mounts: Mapping[str, object] | None


def find_local(document: Document) -> LocalFiles:
    """Classifies the files that a document names by how they are uploaded."""
    keys = document.keys() or {}
    working: dict[str, bytes | Path] = {}
    workdir, mounts = keys.get("workdir"), keys.get("file_mounts")
    if isinstance(workdir, str) and workdir and not workdir.startswith(SENT):
        working[""] = folder = _local_path(document, workdir)
        if not folder.is_dir():
            raise BadBundle(
                f"workdir is {workdir!r}, and {folder} is not a folder.",
                fix="Name a folder; its files become the working directory of the job.",
                code="workdir-not-a-folder",
            )
    if not isinstance(mounts, dict):
        return LocalFiles(working, None)
    remaining: dict[str, object] = {}
    for target, source in mounts.items():
        if not isinstance(source, str) or source.startswith(SENT) or "://" in source:
            remaining[target] = source
            continue
        path = _local_path(document, source)
        if path.is_file() and _stays_inside(target):
            _refuse_fixed_workdir(workdir, target)
            working[str(PurePosixPath(target))] = path
        else:
            remaining[target] = path
    return LocalFiles(working, remaining)


def _local_path(document: Document, written: str) -> Path:
    return document.folder / Path(written).expanduser()


def _stays_inside(target: object) -> bool:
    """Whether a mount path is inside the working directory; the server refuses others."""
    parts = PurePosixPath(str(target)).parts
    return bool(parts) and ".." not in parts and not str(target).startswith(("/", "~"))


def _refuse_fixed_workdir(workdir: object, target: str) -> None:
    if isinstance(workdir, str) and workdir.startswith(SENT):
        raise BadBundle(
            f"the file for {target!r} cannot be added to a working directory that is already uploaded.",
            fix="Name the folder itself as workdir, or mount a folder.",
            code="workdir-is-fixed",
        )
