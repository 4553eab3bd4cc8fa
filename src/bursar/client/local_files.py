"""The files here that a job document speaks of, and how they travel.

A folder that is mounted becomes a bundle of its own. A single file cannot be one, because bundles are
laid out as folders: it goes into the bundle of the working directory, at the place it is mounted at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bursar.client.document import SENT, Document
from bursar.client.errors import BadBundle


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """``working`` makes the working directory, nothing when that stays as it is; ``mounts`` are all
    mounts that remain, with a path for each that must be sent, or None when they stay as they are."""

    working: Mapping[str, bytes | Path]
    mounts: Mapping[str, object] | None


def find_local(document: Document) -> LocalFiles:
    """Sort what the document names into what is sent how."""
    said = document.keys() or {}
    working: dict[str, bytes | Path] = {}
    workdir, mounts = said.get("workdir"), said.get("file_mounts")
    if isinstance(workdir, str) and workdir and not workdir.startswith(SENT):
        working[""] = folder = _place(document, workdir)
        if not folder.is_dir():
            raise BadBundle(
                f"workdir is {workdir!r}, and {folder} is not a folder.",
                fix="Name a folder; its files become the working directory of the job.",
                code="workdir-not-a-folder",
            )
    if not isinstance(mounts, dict):
        return LocalFiles(working, None)
    kept: dict[str, object] = {}
    for target, source in mounts.items():
        if not isinstance(source, str) or source.startswith(SENT) or "://" in source:
            kept[target] = source
            continue
        path = _place(document, source)
        if path.is_file() and _stays_inside(target):
            _refuse_fixed_workdir(workdir, target)
            working[str(PurePosixPath(target))] = path
        else:
            kept[target] = path
    return LocalFiles(working, kept)


def _place(document: Document, written: str) -> Path:
    return document.folder / Path(written).expanduser()


def _stays_inside(target: object) -> bool:
    """What leads elsewhere is left for the server to refuse, which says best what is wrong."""
    parts = PurePosixPath(str(target)).parts
    return bool(parts) and ".." not in parts and not str(target).startswith(("/", "~"))


def _refuse_fixed_workdir(workdir: object, target: str) -> None:
    if isinstance(workdir, str) and workdir.startswith(SENT):
        raise BadBundle(
            f"the file for {target!r} cannot be added to a working directory that was sent before.",
            fix="Name the folder itself as workdir, or mount a folder.",
            code="workdir-is-fixed",
        )
