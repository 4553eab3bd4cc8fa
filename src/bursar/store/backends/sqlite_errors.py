"""Converts SQLite errors to Bursar's errors, with what the operator can do."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bursar.model.errors import BrokenInvariant, EngineFault, UserError

BUSY_RETRY_SECONDS = 1.0
MIB_BYTES = 1 << 20
PRIMARY = 0xFF
"""Mask of the primary result code in an extended one."""


def is_not_a_database(error: DBAPIError) -> bool:
    return _code(error) == sqlite3.SQLITE_NOTADB


def as_fault(path: Path, error: SQLAlchemyError) -> Exception:
    """Converts an error. Nothing was written in any of these cases."""
    if isinstance(error, PoolTimeout):
        return EngineFault(
            f"too many concurrent reads of {path}: no free connection within 30 s",
            retry_after_seconds=BUSY_RETRY_SECONDS,
        )
    if not isinstance(error, DBAPIError):
        return BrokenInvariant(f"the database rejected a statement of the store: {error}")
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return _full(path)
    if code not in _FAULTS:
        return BrokenInvariant(f"the database rejected a statement of the store: {error.orig}")
    return _FAULTS[code].of(path, str(error.orig))


def cannot_open(path: Path, error: OSError) -> Exception:
    """Error for a file or folder that cannot be opened or created."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    return UserError(
        f"{path} cannot be opened: {error.strerror or error}.",
        fix="Check the path and the permissions of its folder.",
        code="store-not-accessible",
    )


def _code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", 0)) & PRIMARY


class _Fault(NamedTuple):
    """What has failed, with the path for ``{}``; what the operator can do; when to retry."""

    problem: str
    advice: str
    retry_seconds: float = 5.0

    def of(self, path: Path, cause: str) -> EngineFault:
        return EngineFault(
            f"{self.problem.format(path)} ({cause}): nothing was written. {self.advice}",
            retry_after_seconds=self.retry_seconds,
        )


_FULL = _Fault("the disk that holds {} is full", "Free some space; Bursar retries.")
_NOT_WRITABLE = _Fault(
    "{} cannot be opened or written",
    "Check that the file system is mounted for writing, and the owner of the file; Bursar retries.",
)
_BUSY = _Fault(
    "another program has locked {}",
    "Close other programs that write to the database; Bursar retries.",
    BUSY_RETRY_SECONDS,
)
_DAMAGED = _Fault(
    "{} is damaged",
    "Run 'bursar doctor' on it, and restore a backup if it reports damage.",
    retry_seconds=60.0,
)
_FAULTS = {
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_PERM: _NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: _NOT_WRITABLE,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_IOERR: _Fault(
        "the disk that holds {} failed", "Check the disk and its free space; Bursar retries."
    ),
}


def _full(path: Path) -> EngineFault:
    try:
        free = f"{shutil.disk_usage(path.parent).free // MIB_BYTES} MiB free"
    except OSError:
        free = "free space unknown"
    return _FULL.of(path, free)
