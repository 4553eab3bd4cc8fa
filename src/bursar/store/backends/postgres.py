"""PostgreSQL: the lock of the lead and the writes share one connection.

A session's advisory lock ends with the session. Because the session that holds the lock is also the
one that writes, whoever gets the lock knows that no write of an earlier leader is still under way,
also when that leader was ourselves over a connection that broke.
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
from bursar.store.leader_lock import LeaseHeld, epoch_now, forget_in_forks
from bursar.store.sql_store import SqlStore, create_if_new, require_tables
from bursar.store.tables.schema import VERSION_TABLE, metadata

CONNECT_SECONDS = 5
READERS = 8
MORE_READERS = 24
RETRY_SECONDS = 1.0

# A client whose machine is gone is noticed by the server within 5 + 3 x 2 seconds, and its lock ends.
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
    """Connect, and create or migrate the tables unless the store is opened for reading only."""
    database = PostgresDatabase(_parsed(url))
    try:
        if read_only:
            require_tables(database)
        else:
            create_if_new(database)
    except BaseException:
        database.engine.dispose()
        raise
    return SqlStore(database, read_only=read_only)


def _parsed(url: str) -> URL:
    try:
        return make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError) as error:
        raise UserError(
            "The address of the PostgreSQL database cannot be read.",
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
                max_overflow=MORE_READERS,
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
        """Of its tables; 0 when there are none yet."""
        try:
            with self.engine.connect() as connection, connection.begin():
                names = set(inspect(connection).get_table_names())
                if VERSION_TABLE in names:
                    wanted = text(f"SELECT version_num FROM {VERSION_TABLE}")
                    return int(connection.execute(wanted).scalar() or 0)
        except SQLAlchemyError as error:
            raise self.fault(error) from error
        taken = sorted(names & set(metadata.tables))
        if taken:
            raise UserError(
                f"{self.shown} has a table '{taken[0]}' that is not Bursar's.",
                fix="Create a database of its own: createdb bursar. Nothing was changed.",
                code="not-our-store",
            )
        return 0

    def try_hold(self) -> PostgresLeaderLock | None:
        """The lock and the writer, on one connection."""
        hold = PostgresLeaderLock(self._writing_engine, self.shown)
        try:
            return hold if hold.try_lock() else None
        except SQLAlchemyError as error:
            raise self.fault(error) from error

    def fault(self, error: SQLAlchemyError) -> Exception:
        """What an error of PostgreSQL is to our callers."""
        if isinstance(error, DataError):
            return BrokenInvariant(f"a value does not fit into the database: {error.orig}")
        if isinstance(error, PoolTimeout):
            return EngineFault(
                f"too many reads of {self.shown} at once; this one got no connection in 30 s",
                retry_after_seconds=RETRY_SECONDS,
            )
        if not isinstance(error, DBAPIError) or _is_our_mistake(error):
            return BrokenInvariant(f"the store and its database do not agree: {error}")
        return EngineFault(
            f"{self.shown} does not answer as it should ({_said(error)}): nothing was written. "
            "Check that PostgreSQL runs, can be reached and has space; Bursar tries again.",
            retry_after_seconds=RETRY_SECONDS,
        )


class PostgresLeaderLock:
    """``Hold`` on a server: a connection that has the advisory lock."""

    def __init__(self, engine: Engine, shown: str) -> None:
        self._engine = engine
        self._shown = shown
        self._connection: Connection | None = None
        forget_in_forks(self)

    def try_lock(self) -> bool:
        """Connect and take the lock, or leave without it."""
        connection = self._engine.connect()
        if self._locks(connection):
            self._connection = connection
            return True
        connection.close()
        return False

    def connection(self) -> Connection:
        """The connection with the lock; after a break, a new one that got the lock again."""
        if self._connection is None and not self.try_lock():
            with self._engine.connect() as connection, connection.begin():
                epoch = epoch_now(connection)
            raise LeaseHeld(
                f"{self._shown}: the connection that held the lead broke, and the lead is still "
                "held by its remains or by another process; nothing was written.",
                epoch,
            )
        assert self._connection is not None
        return self._connection

    def _locks(self, connection: Connection) -> bool:
        try:
            with connection.begin():
                schema = connection.execute(text("SELECT current_schema()")).scalar_one()
                wanted = text("SELECT pg_try_advisory_lock(:key)").bindparams(key=lock_key(schema))
                return bool(connection.execute(wanted).scalar_one())
        except BaseException:
            connection.invalidate()
            connection.close()
            raise

    def drop(self) -> None:
        """Close the connection; the server gives up the lock when it notices."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def release(self) -> None:
        """Close the connection, and the lock with it."""
        self.drop()

    def forget_in_child(self) -> None:
        """Put nothing in the place of the socket, so that the driver cannot speak to the server."""
        if self._connection is not None:
            driver: Any = self._connection.connection.driver_connection
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, driver.fileno(), inheritable=False)
            os.close(nothing)
            self._connection = None


def lock_key(schema: str | None) -> int:
    """A number for the lead of the Bursar in this schema; advisory locks are one database's own."""
    digest = hashlib.sha256(f"bursar lead {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _read_only(connection: Any) -> None:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")


def _prepare_writer(connection: Any, _record: Any) -> None:
    settings = {"synchronous_commit": "on", "idle_in_transaction_session_timeout": 0, **KEEPALIVE}
    for name, value in settings.items():
        connection.execute(f"SET {name} = {value}")
    connection.commit()


_OUR_MISTAKES = ("42", "22", "0A")
"""Classes of SQLSTATE: wrong statement, wrong value, not supported."""


def _is_our_mistake(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return isinstance(state, str) and state.startswith(_OUR_MISTAKES) and state != "42501"


def _said(error: DBAPIError) -> str:
    return str(error.orig).strip().split("\n", 1)[0]
