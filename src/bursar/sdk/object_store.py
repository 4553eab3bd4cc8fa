"""Object storage behind six methods. Objects appear complete or not at all, and cannot be renamed.

URLs are opened by fsspec, an optional dependency that is imported when a URL is used. A folder works
without it.
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
"""The package to install, by scheme. Other fsspec schemes work if their package is installed."""


class ObjectStore(Protocol):
    """Named objects. Names are relative, with slashes."""

    location: str

    def names(self, below: str = "") -> list[str]:
        """Every name in the folder ``below``, by default all; sorted."""

    def put(self, path: Path, name: str) -> None:
        """Upload a local file, completely or not at all."""

    def get(self, name: str, path: Path) -> None:
        """Download; ``FileNotFoundError`` if it does not exist."""

    def write(self, name: str, content: bytes) -> None: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, name: str) -> None:
        """Does nothing if it does not exist."""


def open_object_store(location: str) -> ObjectStore:
    """The store of a folder or a URL."""
    scheme, separator, path = location.partition("://")
    if not separator:
        return FolderObjectStore(Path(location).absolute())
    if scheme == "file":
        return FolderObjectStore(Path(path).absolute())
    try:
        system, root = importlib.import_module("fsspec.core").url_to_fs(location)
    except ImportError:
        package = PACKAGES.get(scheme, "fsspec")
        raise CheckpointProblem(
            f"{location} needs the package {package}, which is not installed",
            fix=f"add 'pip install {package}' to the setup of the job, or to its image",
        ) from None
    except ValueError as error:
        raise CheckpointProblem(
            f"{location} cannot be opened: {error}",
            fix="use a folder or a URL with s3, gs or az",
        ) from None
    return UrlObjectStore(system, root, location)


class FolderObjectStore:
    """A folder used as object storage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.location = str(folder)

    def names(self, below: str = "") -> list[str]:
        objects = []
        for parent, _, names in os.walk(self._folder / below):
            folder = Path(parent).relative_to(self._folder)
            objects += [(folder / name).as_posix() for name in names if not name.endswith(".part")]
        return sorted(objects)

    def put(self, path: Path, name: str) -> None:
        import shutil

        temporary = self._temporary_path(name)
        shutil.copyfile(path, temporary)
        self._publish(temporary, name)

    def get(self, name: str, path: Path) -> None:
        import shutil

        shutil.copyfile(self._folder / name, path)

    def write(self, name: str, content: bytes) -> None:
        temporary = self._temporary_path(name)
        temporary.write_bytes(content)
        self._publish(temporary, name)

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        for folder in (self._folder / name).parents:
            try:
                folder.rmdir()
            except OSError:
                return

    def _temporary_path(self, name: str) -> Path:
        path = self._folder / f"{name}.{os.getpid()}.part"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _publish(self, temporary: Path, name: str) -> None:
        sync(temporary)
        os.replace(temporary, self._folder / name)
        sync(temporary.parent)


class StoreUnreachable(OSError):
    """A storage operation failed; wraps the errors of fsspec's client libraries."""


class UrlObjectStore:
    """Object storage through fsspec. Listings are never cached: other machines write too."""

    def __init__(self, system: Any, root: str, location: str) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self.location = location

    def names(self, below: str = "") -> list[str]:
        self._system.invalidate_cache()
        start = f"{self._root}/{below}".rstrip("/")
        try:
            paths = self._call("find", start)
        except FileNotFoundError:
            return []
        head = f"{self._root}/"
        return sorted(path[len(head) :] for path in paths if path.startswith(head))

    def put(self, path: Path, name: str) -> None:
        self._call("put_file", str(path), self._path(name))

    def get(self, name: str, path: Path) -> None:
        self._call("get_file", self._path(name), str(path))

    def write(self, name: str, content: bytes) -> None:
        self._call("pipe_file", self._path(name), content)

    def read(self, name: str) -> bytes:
        content: bytes = self._call("cat_file", self._path(name))
        return content

    def remove(self, name: str) -> None:
        try:
            self._call("rm_file", self._path(name))
        except FileNotFoundError:
            return

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self._system, method)(*arguments)
        except OSError:
            raise
        except Exception as error:
            raise StoreUnreachable(f"{self.location}: {type(error).__name__}: {error}") from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"
