"""SQLite: a file, one connection that writes and checkpoints, any number that read.

The lock of the lead is a ``flock`` on a file beside the database: it belongs to the open file, so the
kernel gives it up when the process ends, however it ends. The database itself is never opened by other
means than SQLite: closing it would drop the locks that SQLite holds on it in the same process.
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
from bursar.store.backends.sqlite_errors import as_fault, cannot_open, is_no_database
from bursar.store.leader_lock import forget_in_forks
from bursar.store.sql_store import SqlStore, create_if_new, require_tables
from bursar.store.tables.schema import VERSION_TABLE

APPLICATION_ID = 0x42555253
"""Marks the file as ours: "BURS"."""
BUSY_SECONDS = 2.0
"""How long the writer waits when another program has locked the database."""
CHECKPOINT_PAGES = 4_000
WAL_KEPT_BYTES = 64 * 1024 * 1024
READERS = 8
MORE_READERS = 56


def open_sqlite(path: Path, *, read_only: bool) -> SqlStore:
    """Open the file, and create or migrate it unless it is opened for reading only."""
    database = SqliteDatabase(path.absolute())
    try:
        if read_only:
            database.require_file()
            require_tables(database)
        else:
            create_if_new(database)
    except BaseException:
        database.engine.dispose()
        raise
    return SqlStore(database, read_only=read_only)


class SqliteDatabase:
    """``Database`` on a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = str(path)
        self.engine = _reading_engine(path)

    def require_file(self) -> None:
        if not self.path.exists():
            raise UserError(
                f"There is no database at {self.path}.",
                fix="Check the path, or start 'bursar up', which creates it.",
                code="no-store",
            )

    def version(self) -> int:
        """Of its tables; 0 when the file is not there or empty."""
        try:
            if not self.path.exists() or self.path.stat().st_size == 0:
                return 0
            with self.engine.connect() as connection, connection.begin():
                return self._version_in(connection)
        except OSError as error:
            raise cannot_open(self.path, error) from error
        except DBAPIError as error:
            if is_no_database(error):
                raise self._not_ours("it is not an SQLite database") from error
            raise self.fault(error) from error

    def _version_in(self, connection: Connection) -> int:
        application = connection.execute(text("PRAGMA application_id")).scalar_one()
        names = set(connection.scalars(text("SELECT name FROM sqlite_master")))
        if not names and application in (0, APPLICATION_ID):
            return 0
        if application != APPLICATION_ID or VERSION_TABLE not in names:
            raise self._not_ours("it is an SQLite database of another program")
        found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
        return int(found or 0)

    def _not_ours(self, why: str) -> UserError:
        return UserError(
            f"{self.path} is not a database of Bursar: {why}.",
            fix="Name another file; one that does not exist yet is created. Nothing was changed.",
            code="not-our-store",
        )

    def try_hold(self) -> SqliteLeaderLock | None:
        """The lock and the writer; the file is created, for its owner alone, if it is not there."""
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
        """What an error of SQLite is to our callers."""
        return as_fault(self.path, error)


# -- the lock ----------------------------------------------------------------------------------------


class SqliteLeaderLock:
    """``Hold`` on a file: an open, locked descriptor and the writing connection."""

    def __init__(self, path: Path, lock: int) -> None:
        self._engine = _writing_engine(path)
        self._lock: int | None = lock
        self._connection: Connection | None = None
        forget_in_forks(self)

    def connection(self) -> Connection:
        """The writer. A dropped one was rolled back when it was closed."""
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def drop(self) -> None:
        """Close the writer; the lock stays."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def release(self) -> None:
        """Empty the WAL if nobody reads, close the writer, then unlock."""
        if self._lock is None:
            return
        if self._connection is not None:
            _empty_wal(self._connection)
            self._connection.close()
            self._connection = None
        self._engine.dispose()
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.forget_in_child()

    def forget_in_child(self) -> None:
        """Close our copy of the descriptor; the lock stays with the others."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _try_flock(path: Path) -> int | None:
    """A locked descriptor that programs started by us do not inherit; None when it is taken."""
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


# -- connections -------------------------------------------------------------------------------------


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
        max_overflow=MORE_READERS,
    )
    event.listen(engine, "begin", _begin)
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
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _prepare_writer(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise UserError(
            f"The file system of {path} cannot hold a database in WAL mode (it answers {mode!r}).",
            fix="Put the database on a local disk, or use PostgreSQL.",
            code="no-wal",
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _empty_wal(writer: Connection) -> None:
    """Deleted secrets must not outlive us there. What cannot be done now, the next leader does."""
    driver: Any = writer.connection.driver_connection
    with suppress(sqlite3.Error):
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Transactions begin and end when we say so, not when the driver thinks so."""
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _begin(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN")


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
