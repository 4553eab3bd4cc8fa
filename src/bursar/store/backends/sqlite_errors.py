"""Converts SQLite errors to Bursar's errors, with what the operator can do."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bursar.model.errors import BrokenInvariant, EngineFault, UserError

FULL_RETRY_SECONDS = 5.0
BUSY_RETRY_SECONDS = 1.0
DAMAGED_RETRY_SECONDS = 60.0
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
    known = {
        sqlite3.SQLITE_FULL: _full,
        sqlite3.SQLITE_READONLY: _not_writable,
        sqlite3.SQLITE_PERM: _not_writable,
        sqlite3.SQLITE_CANTOPEN: _not_writable,
        sqlite3.SQLITE_BUSY: _busy,
        sqlite3.SQLITE_LOCKED: _busy,
        sqlite3.SQLITE_CORRUPT: _damaged,
        sqlite3.SQLITE_NOTADB: _damaged,
        sqlite3.SQLITE_IOERR: _unreliable,
    }
    describe = known.get(_code(error))
    if describe is None:
        return BrokenInvariant(f"the database rejected a statement of the store: {error.orig}")
    return describe(path, error)


def cannot_open(path: Path, error: OSError) -> Exception:
    """Error for a file or folder that cannot be opened or created."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path, error)
    return UserError(
        f"{path} cannot be opened: {error.strerror or error}.",
        fix="Check the path and the permissions of its folder.",
        code="store-not-accessible",
    )


def _code(error: DBAPIError) -> int:
    return int(getattr(error.orig, "sqlite_errorcode", 0)) & PRIMARY


def _full(path: Path, _error: Exception) -> EngineFault:
    try:
        free = f"{shutil.disk_usage(path.parent).free // MIB_BYTES} MiB free"
    except OSError:
        free = "free space unknown"
    return EngineFault(
        f"the disk that holds {path} is full ({free}): nothing was written. Free some space; "
        "Bursar retries.",
        retry_after_seconds=FULL_RETRY_SECONDS,
    )


def _not_writable(path: Path, error: Exception) -> EngineFault:
    return EngineFault(
        f"{path} cannot be opened or written ({_message(error)}): nothing was written. Check that the file "
        "system is mounted for writing, and the owner of the file; Bursar retries.",
        retry_after_seconds=FULL_RETRY_SECONDS,
    )


def _busy(path: Path, error: Exception) -> EngineFault:
    return EngineFault(
        f"another program has locked {path} ({_message(error)}): nothing was written. Close "
        "other programs that write to the database; Bursar retries.",
        retry_after_seconds=BUSY_RETRY_SECONDS,
    )


def _damaged(path: Path, error: Exception) -> EngineFault:
    return EngineFault(
        f"{path} is damaged ({_message(error)}): nothing was written. Run 'bursar doctor' on it, and "
        "restore a backup if it reports damage.",
        retry_after_seconds=DAMAGED_RETRY_SECONDS,
    )


def _unreliable(path: Path, error: Exception) -> EngineFault:
    return EngineFault(
        f"the disk that holds {path} failed ({_message(error)}): nothing was written. Check the disk "
        "and its free space; Bursar retries.",
        retry_after_seconds=FULL_RETRY_SECONDS,
    )


def _message(error: Exception) -> str:
    return str(error.orig) if isinstance(error, DBAPIError) else str(error)
