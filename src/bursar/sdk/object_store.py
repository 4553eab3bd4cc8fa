"""Object storage in six verbs: what cannot rename, and shows a name when its content is whole.

URLs are opened by fsspec, which is no dependency of ours: it is looked for when a URL is used. A folder
can be a target too, without it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Protocol

from bursar.sdk.checkpoint_store import sync
from bursar.sdk.errors import CheckpointProblem

PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "memory": "fsspec",
}
"""By scheme, what to install. Other schemes of fsspec work where their package is there."""


class ObjectStore(Protocol):
    """A flat place for named content. Names are relative, with slashes."""

    where: str

    def names(self, below: str = "") -> list[str]:
        """Every name that begins with ``below``, a folder or nothing; sorted."""

    def put(self, path: Path, name: str) -> None:
        """A file of this machine, whole or not at all."""

    def get(self, name: str, path: Path) -> None:
        """``FileNotFoundError`` when it is not there."""

    def write(self, name: str, content: bytes) -> None: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, name: str) -> None:
        """Also when it is gone already."""


def target_at(place: str) -> ObjectStore:
    """A folder, or whatever fsspec opens."""
    scheme, separator, path = place.partition("://")
    if not separator:
        return FolderObjectStore(Path(place).absolute())
    if scheme == "file":
        return FolderObjectStore(Path(path).absolute())
    try:
        system, root = importlib.import_module("fsspec.core").url_to_fs(place)
    except ImportError:
        raise _missing(place, scheme) from None
    except ValueError as refusal:
        raise CheckpointProblem(
            f"{place} cannot be opened: {refusal}",
            fix="use a folder or a URL with s3, gs or az",
        ) from None
    return UrlObjectStore(system, root, place)


def _missing(place: str, scheme: str) -> CheckpointProblem:
    package = PACKAGES.get(scheme, "fsspec")
    return CheckpointProblem(
        f"{place} needs the package {package}, which is not installed here",
        fix=f"add 'pip install {package}' to the setup of the job, or to its image",
    )


class FolderObjectStore:
    """A folder that is used as object storage is used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)

    def names(self, below: str = "") -> list[str]:
        found = []
        for place, _, names in os.walk(self._folder / below):
            inner = Path(place).relative_to(self._folder)
            found += [(inner / name).as_posix() for name in names if not name.endswith(".part")]
        return sorted(found)

    def put(self, path: Path, name: str) -> None:
        import shutil

        aside = self._aside(name)
        shutil.copyfile(path, aside)
        self._reveal(aside, name)

    def get(self, name: str, path: Path) -> None:
        import shutil

        shutil.copyfile(self._folder / name, path)

    def write(self, name: str, content: bytes) -> None:
        aside = self._aside(name)
        aside.write_bytes(content)
        self._reveal(aside, name)

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        for folder in (self._folder / name).parents:
            try:
                folder.rmdir()
            except OSError:
                return

    def _aside(self, name: str) -> Path:
        path = self._folder / f"{name}.{os.getpid()}.part"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _reveal(self, aside: Path, name: str) -> None:
        sync(aside)
        os.replace(aside, self._folder / name)
        sync(aside.parent)


class StoreUnreachable(OSError):
    """The storage did not do what it was asked; every client library has errors of its own for it."""


class UrlObjectStore:
    """What fsspec opens. Listings are asked for anew: another machine may have written since."""

    def __init__(self, system: Any, root: str, where: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self.where = where

    def names(self, below: str = "") -> list[str]:
        self._system.invalidate_cache()
        start = f"{self._root}/{below}".rstrip("/")
        try:
            found = self._ask("find", start)
        except FileNotFoundError:
            return []
        head = f"{self._root}/"
        return sorted(path[len(head) :] for path in found if path.startswith(head))

    def put(self, path: Path, name: str) -> None:
        self._ask("put_file", str(path), self._path(name))

    def get(self, name: str, path: Path) -> None:
        self._ask("get_file", self._path(name), str(path))

    def write(self, name: str, content: bytes) -> None:
        self._ask("pipe_file", self._path(name), content)

    def read(self, name: str) -> bytes:
        content: bytes = self._ask("cat_file", self._path(name))
        return content

    def remove(self, name: str) -> None:
        try:
            self._ask("rm_file", self._path(name))
        except FileNotFoundError:
            return

    def _ask(self, verb: str, *words: object) -> Any:
        try:
            return getattr(self._system, verb)(*words)
        except OSError:
            raise
        except Exception as fault:
            raise StoreUnreachable(f"{self.where}: {type(fault).__name__}: {fault}") from fault

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"
