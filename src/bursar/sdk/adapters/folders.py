"""Copies folders of frameworks into checkpoints."""

from __future__ import annotations

from pathlib import Path


def copy_folder(source: Path, target: Path) -> None:
    """Copy files, not links: a framework may later rewrite a link's target."""
    import shutil

    shutil.copytree(source, target, symlinks=False)
