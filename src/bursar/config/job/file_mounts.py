"""Files that go along with a job: named by path before they are sent, by their hash afterwards.

A client packs each local path, sends the archive, and writes ``sha256:...`` in its place. So the server
never sees a path of somebody else's machine as anything but a reason to refuse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from bursar.config.yaml.value_readers import InvalidValue, named, refuse_unwritable, shown

SENT = "sha256:"
MOST_MOUNTS = 100
MOST_PATH = 4_096

_HASH = re.compile(r"[0-9a-f]{64}\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A path on the user's machine that must be sent before the job can run.

    ``target`` is where it goes inside the working directory; empty: it is the working directory.
    """

    path: str
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSource:
    """A bundle that was sent, or a local path that was not."""

    bundle: str | None = None
    path: str | None = None


def workdir(value: Any) -> MountSource:
    """A folder on the user's machine, or what was sent of it."""
    return _source(value)


def file_mounts(value: Any) -> dict[str, MountSource]:
    """Where files go, and what they are."""
    return named(value, _target, _source, MOST_MOUNTS)


def _source(value: Any) -> MountSource:
    if isinstance(value, dict):
        fix = "Write the local path alone; fetch from storage in 'setup'."
        raise InvalidValue("is a mapping", fix, "not-supported")
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue(f"is {shown(value)}, not a path", "Write a local path.", "wrong-type")
    if value.startswith(SENT):
        if not _HASH.match(value.removeprefix(SENT)):
            fix = f"Write {SENT} and 64 digits from 0 to f."
            raise InvalidValue(f"is {shown(value)}", fix, "bad-bundle")
        return MountSource(bundle=value.removeprefix(SENT))
    if _SCHEME.match(value):
        fix = "Write a local path; fetch from storage or git in 'setup'."
        raise InvalidValue(f"is {shown(value)}, which is not sent along", fix, "not-supported")
    if len(value) > MOST_PATH or not value.isprintable():
        raise InvalidValue(f"is {shown(value)}, not a path", "Write a local path.", "bad-path")
    refuse_unwritable(value)
    return MountSource(path=value)


def _target(value: Any) -> str:
    """A path that stays inside the working directory whatever is done with it."""
    fix = "Write a path inside the working directory, for example 'inputs/a.csv'."
    bad = not isinstance(value, str) or not value.strip() or len(value) > 1_024
    if bad or not value.isprintable() or "\\" in value or value[0] in "-~/" or ":" in value:
        raise InvalidValue(f"{shown(value)} cannot be filled", fix, "bad-path", at_key=True)
    parts = PurePosixPath(value).parts
    if ".." in parts or not parts:
        raise InvalidValue(
            f"{shown(value)} leads out of the working directory", fix, "bad-path", at_key=True
        )
    return str(PurePosixPath(*parts))
