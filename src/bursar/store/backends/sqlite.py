"""SQLite: one connection that writes and checkpoints, and a pool of readers.

The leader lock is a ``flock`` on a separate file next to the database; the kernel releases it when the
process ends. Only SQLite may open the database file: closing any other descriptor of it would release the
locks that SQLite holds in the same process.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from bursar.model.errors import UserError
from bursar.store.backends.sqlite_errors import as_fault, cannot_open, is_not_a_database
from bursar.store.leader_lock import drop_in_forks
from bursar.store.sql_store import SqlStore, open_database
from bursar.store.tables.schema import VERSION_TABLE

APPLICATION_ID = 0x42555253
"""Marks the file as ours: "BURS"."""
BUSY_SECONDS = 2.0
"""Wait limit while another program has locked the database."""
CHECKPOINT_PAGES = 4_000
WAL_LIMIT_BYTES = 64 * 1024 * 1024
READERS = 8
EXTRA_READERS = 56


def open_sqlite(path: Path, *, read_only: bool) -> SqlStore:
    """Opens the file, and creates the tables of a new one unless ``read_only``."""
    if read_only and not path.exists():
        raise UserError(
            f"There is no database at {path.absolute()}.",
            fix="Check the path, or run 'bursar up', which creates it.",
            code="no-store",
        )
    return open_database(SqliteDatabase(path.absolute()), read_only=read_only)


class SqliteDatabase:
    """``Database`` on a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = str(path)
        self.engine = _reading_engine(path)

    def version(self) -> int:
        """Version of its tables; 0 if the file is missing or empty."""
        try:
            if not self.path.exists() or self.path.stat().st_size == 0:
                return 0
            with self.engine.connect() as connection, connection.begin():
                return self._version_in(connection)
        except OSError as error:
            raise cannot_open(self.path, error) from error
        except DBAPIError as error:
            if is_not_a_database(error):
                raise self._not_bursars("it is not an SQLite database") from error
            raise self.fault(error) from error

    def _version_in(self, connection: Connection) -> int:
        application = connection.execute(text("PRAGMA application_id")).scalar_one()
        names = set(connection.scalars(text("SELECT name FROM sqlite_master")))
        if not names and application in (0, APPLICATION_ID):
            return 0
        if application != APPLICATION_ID or VERSION_TABLE not in names:
            raise self._not_bursars("it is an SQLite database of another program")
        version = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return int(version or 0)

    def _not_bursars(self, why: str) -> UserError:
        return UserError(
            f"{self.path} is not a Bursar database: {why}.",
            fix="Name another file; a missing file is created. Nothing was changed.",
            code="not-our-store",
        )

    def try_leader_lock(self) -> SqliteLeaderLock | None:
        """Takes the lock; creates a missing file that only its owner may access."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _try_flock(Path(f"{self.path}.lead"))
            if lock is None:
                return None
            self.path.touch(mode=0o600)
        except OSError as error:
            raise cannot_open(self.path, error) from error
        return SqliteLeaderLock(self.path, lock)

    def fault(self, error: SQLAlchemyError) -> Exception:
        """Converts an SQLite error to one of Bursar's errors."""
        return as_fault(self.path, error)


# -- the lock --------------------------------------------------------------------------------------


class SqliteLeaderLock:
    """``LeaderLock`` on a file: a locked descriptor and the writing connection."""

    def __init__(self, path: Path, lock: int) -> None:
        self._engine = _writing_engine(path)
        self._lock_fd: int | None = lock
        self._connection: Connection | None = None
        drop_in_forks(self)

    def connection(self) -> Connection:
        """The writing connection. Closing a dropped one rolled it back."""
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def drop(self) -> None:
        """Closes the writing connection; the lock stays."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def release(self) -> None:
        """Empties the WAL unless there are readers, closes the writer, then unlocks."""
        if self._lock_fd is None:
            return
        if self._connection is not None:
            _empty_wal(self._connection)
            self._connection.close()
            self._connection = None
        self._engine.dispose()
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        self.drop_in_child()

    def drop_in_child(self) -> None:
        """Closes this process's descriptor; copies in other processes hold the lock."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def _try_flock(path: Path) -> int | None:
    """A locked descriptor, not inherited by child programs; None if it is locked already."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


# -- connections -----------------------------------------------------------------------------------


def _reading_engine(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = _connect(path, "ro")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=READERS,
        max_overflow=EXTRA_READERS,
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _writing_engine(path: Path) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = _connect(path, "rw")
        try:
            _prepare_writer(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _prepare_writer(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise UserError(
            f"The file system of {path} does not support WAL mode (the journal mode stays {mode!r}).",
            fix="Put the database on a local disk, or use PostgreSQL.",
            code="no-wal",
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _empty_wal(writer: Connection) -> None:
    """Removes deleted secrets from the WAL. If it fails, the next leader does it."""
    driver: Any = writer.connection.driver_connection
    with suppress(sqlite3.Error):
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Connects in autocommit mode: SQLAlchemy events begin the transactions."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
