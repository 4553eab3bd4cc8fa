"""Files uploaded with a job: local paths before the upload, hashes after it.

The client packs each local path, uploads the archive, and writes ``sha256:...`` instead of the path.
The server rejects local paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from bursar.config.yaml.value_readers import InvalidValue, named, reject_unwritable, shown

UPLOADED = "sha256:"
MOST_MOUNTS = 100
MOST_PATH = 4_096

_HASH = re.compile(r"[0-9a-f]{64}\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A local path that must be uploaded before the job can run.

    ``target`` is its path in the working directory; empty means it becomes the working directory.
    """

    path: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSource:
    """An uploaded bundle, or a local path that is not uploaded yet."""

    bundle: str | None = None
    path: str | None = None


def file_mounts(value: Any) -> dict[str, MountSource]:
    """Sources by their path in the working directory."""
    return named(value, _target, source, MOST_MOUNTS)


def source(value: Any) -> MountSource:
    """A local file or folder, or its uploaded bundle."""
    if isinstance(value, dict):
        fix = "Write only the local path; fetch from storage in 'setup'."
        raise InvalidValue("is a mapping", fix, "not-supported")
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue(f"is {shown(value)}, not a path", "Write a local path.", "wrong-type")
    if value.startswith(UPLOADED):
        if not _HASH.match(value.removeprefix(UPLOADED)):
            fix = f"Write {UPLOADED} and 64 digits from 0 to f."
            raise InvalidValue(f"is {shown(value)}", fix, "bad-bundle")
        return MountSource(bundle=value.removeprefix(UPLOADED))
    if _SCHEME.match(value):
        fix = "Write a local path; fetch from storage or git in 'setup'."
        raise InvalidValue(f"is {shown(value)}, which cannot be uploaded", fix, "not-supported")
    if len(value) > MOST_PATH or not value.isprintable():
        raise InvalidValue(f"is {shown(value)}, not a path", "Write a local path.", "bad-path")
    reject_unwritable(value)
    return MountSource(path=value)


def _target(value: Any) -> str:
    """A path that cannot leave the working directory."""
    fix = "Write a path inside the working directory, for example 'inputs/a.csv'."
    bad = not isinstance(value, str) or not value.strip() or len(value) > 1_024
    if bad or not value.isprintable() or "\\" in value or value[0] in "-~/" or ":" in value:
        raise InvalidValue(f"{shown(value)} is not a valid target", fix, "bad-path", at_key=True)
    parts = PurePosixPath(value).parts
    if ".." in parts or not parts:
        raise InvalidValue(
            f"{shown(value)} is outside the working directory", fix, "bad-path", at_key=True
        )
    return str(PurePosixPath(*parts))
