"""Folders of frameworks, copied into checkpoints."""

from __future__ import annotations

from pathlib import Path


def copy_folder(source: Path, target: Path) -> None:
    """The content, without links: a link's target may be rewritten by its framework later."""
    import shutil

    shutil.copytree(source, target, symlinks=False)
