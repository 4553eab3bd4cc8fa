"""PostgreSQL: the leader lock is an advisory lock on the writing connection.

An advisory lock ends with its session. Because the same session writes, a process that gets the lock
knows that no write of an earlier leader is under way, nor one of its own broken connections.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool

from bursar.model.errors import BrokenInvariant, EngineFault, UserError
from bursar.store.leader_lock import LeaseHeld, drop_in_forks, epoch_now
from bursar.store.sql_store import SqlStore, open_database
from bursar.store.tables.schema import VERSION_TABLE, metadata

CONNECT_SECONDS = 5
READERS = 8
EXTRA_READERS = 24
RETRY_SECONDS = 1.0

# The server detects a dead client within 5 + 3 x 2 seconds and releases its lock.
KEEPALIVE = {"tcp_keepalives_idle": 5, "tcp_keepalives_interval": 2, "tcp_keepalives_count": 3}
CLIENT_OPTIONS = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "bursar",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 11_000,
}


def open_postgres(url: str, *, read_only: bool) -> SqlStore:
    """Connects, and creates the tables of a new database unless ``read_only``."""
    return open_database(PostgresDatabase(_parsed(url)), read_only=read_only)


def _parsed(url: str) -> URL:
    try:
        return make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as error:
        raise UserError(
            "The PostgreSQL address is not valid.",
            fix="Write postgresql://user:password@host:5432/database",
            code="bad-database-url",
        ) from error


class PostgresDatabase:
    """``Database`` on a server."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.shown = url.set(drivername="postgresql").render_as_string(hide_password=True)
        try:
            self.engine = create_engine(
                url,
                connect_args=CLIENT_OPTIONS,
                isolation_level="REPEATABLE READ",
                pool_size=READERS,
                max_overflow=EXTRA_READERS,
                pool_pre_ping=True,
            )
            self._writing_engine = create_engine(
                url, connect_args=CLIENT_OPTIONS, poolclass=NullPool
            )
        except (ImportError, NoSuchModuleError) as error:
            raise UserError(
                "PostgreSQL needs the package psycopg, which is not installed.",
                fix="pip install 'bursar[postgres]'",
                code="no-psycopg",
            ) from error
        event.listen(self.engine, "begin", _read_only)
        event.listen(self._writing_engine, "connect", _prepare_writer)

    def version(self) -> int:
        """Version of its tables; 0 if there are none."""
        try:
            with self.engine.connect() as connection, connection.begin():
                names = set(inspect(connection).get_table_names())
                if VERSION_TABLE in names:
                    query = text(f"SELECT version_num FROM {VERSION_TABLE}")
                    return int(connection.execute(query).scalar() or 0)
        except SQLAlchemyError as error:
            raise self.fault(error) from error
        foreign = sorted(names & set(metadata.tables))
        if foreign:
            raise UserError(
                f"{self.shown} has a table '{foreign[0]}' that is not Bursar's.",
                fix="Create a separate database: createdb bursar. Nothing was changed.",
                code="not-our-store",
            )
        return 0

    def try_leader_lock(self) -> PostgresLeaderLock | None:
        lock = PostgresLeaderLock(self._writing_engine, self.shown)
        try:
            return lock if lock.try_lock() else None
        except SQLAlchemyError as error:
            raise self.fault(error) from error

    def fault(self, error: SQLAlchemyError) -> Exception:
        """Converts a PostgreSQL error to one of Bursar's errors."""
        if isinstance(error, DataError):
            return BrokenInvariant(f"a value does not fit into the database: {error.orig}")
        if isinstance(error, PoolTimeout):
            return EngineFault(
                f"too many concurrent reads of {self.shown}: no free connection within 30 s",
                retry_after_seconds=RETRY_SECONDS,
            )
        if not isinstance(error, DBAPIError) or _is_programming_error(error):
            return BrokenInvariant(f"the database rejected a statement of the store: {error}")
        return EngineFault(
            f"{self.shown} failed ({_first_line(error)}): nothing was written. "
            "Check that PostgreSQL runs, is reachable and has disk space; Bursar retries.",
            retry_after_seconds=RETRY_SECONDS,
        )


class PostgresLeaderLock:
    """``LeaderLock`` on a server: a connection that holds the advisory lock."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self._shown = shown
        self._connection: Connection | None = None
        drop_in_forks(self)

    def try_lock(self) -> bool:
        """Connects and tries to take the lock; closes the connection without it."""
        connection = self._engine.connect()
        if self._try_lock_on(connection):
            self._connection = connection
            return True
        connection.close()
        return False

    def connection(self) -> Connection:
        """The connection with the lock; reconnects and locks again after a failure."""
        if self._connection is None and not self.try_lock():
            with self._engine.connect() as connection, connection.begin():
                epoch = epoch_now(connection)
            raise LeaseHeld(
                f"{self._shown}: the connection with the leader lock broke, and the lock is still "
                "held by its old session or by another process; nothing was written.",
                epoch,
            )
        assert self._connection is not None
        return self._connection

    def _try_lock_on(self, connection: Connection) -> bool:
        try:
            with connection.begin():
                schema = connection.execute(text("SELECT current_schema()")).scalar_one()
                query = text("SELECT pg_try_advisory_lock(:key)").bindparams(key=lock_key(schema))
                return bool(connection.execute(query).scalar_one())
        except BaseException:
            connection.invalidate()
            connection.close()
            raise

    def drop(self) -> None:
        """Closes the connection; the server then releases the lock."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def release(self) -> None:
        """Closes the connection, which releases the lock."""
        self.drop()

    def drop_in_child(self) -> None:
        """Replaces the socket by /dev/null: the child must not send to the parent's session."""
        if self._connection is not None:
            driver: Any = self._connection.connection.driver_connection
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(null, driver.fileno(), inheritable=False)
            os.close(null)
            self._connection = None


def lock_key(schema: str | None) -> int:
    """Key of the leader lock of a schema; advisory locks are per database."""
    digest = hashlib.sha256(f"bursar lead {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _read_only(connection: Any) -> None:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")


def _prepare_writer(connection: Any, _record: Any) -> None:
    settings = {"synchronous_commit": "on", "idle_in_transaction_session_timeout": 0, **KEEPALIVE}
    for name, value in settings.items():
        connection.execute(f"SET {name} = {value}")
    connection.commit()


_PROGRAMMING_ERRORS = ("42", "22", "0A")
"""SQLSTATE classes: invalid statement, invalid value, not supported."""


def _is_programming_error(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return isinstance(state, str) and state.startswith(_PROGRAMMING_ERRORS) and state != "42501"


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().split("\n", 1)[0]
