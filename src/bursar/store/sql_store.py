"""``SqlStore``, and the ``Database`` protocol that SQLite and PostgreSQL implement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine, update
from sqlalchemy.exc import SQLAlchemyError

from bursar import __version__
from bursar.model.errors import UserError
from bursar.ports import Batch, LeaderLease, LeadershipLost, Snapshot
from bursar.store.append import write_snapshot
from bursar.store.leader_lock import LeaderLock, SqlLeaderLease, epoch_now
from bursar.store.reader import SqlReader
from bursar.store.tables.schema import VERSION, create_tables, meta

T = TypeVar("T")
CREATION_TIMEOUT_SECONDS = 30.0
"""Wait limit for another process that creates the same database."""


class Database(Protocol):
    """One database: its read connections, its leader lock and its errors."""

    shown: str
    """Its name in messages, without a password."""
    engine: Engine
    """For reads, from any thread."""

    def version(self) -> int:
        """Version of its tables; 0 if there are none. ``UserError`` if it is not Bursar's."""

    def try_leader_lock(self) -> LeaderLock | None:
        """Takes the leader lock with the only writing connection; never waits."""

    def fault(self, error: SQLAlchemyError) -> Exception:
        """Converts a database error to one of Bursar's errors."""


class SqlStore(SqlReader):
    """``ports.Store`` on a SQL database."""

    def __init__(self, database: Database, *, read_only: bool) -> None:
        super().__init__(database.engine, database.fault)
        self.database = database
        self.read_only = read_only
        self._leads: list[SqlLeaderLease] = []
        self._lead_mutex = threading.Lock()

    def try_lead(self, address: str) -> LeaderLease | None:
        """Becomes leader if there is none; never waits."""
        if self.read_only:
            raise UserError(
                f"{self.database.shown} was opened for reading only.",
                fix="Open it without read_only to become leader.",
                code="store-read-only",
            )
        with self._lead_mutex:
            lock = self.database.try_leader_lock()
            if lock is None:
                return None
            try:
                epoch = _begin_epoch(lock.connection(), address)
            except BaseException as error:
                lock.release()
                if isinstance(error, SQLAlchemyError):
                    raise self.database.fault(error) from error
                raise
            lead = SqlLeaderLease(lock, epoch, self.database.fault)
            self._leads = [*(one for one in self._leads if not one.released), lead]
            return lead

    def append(self, batch: Batch, lead: LeaderLease) -> int:
        """Writes a batch in one durable transaction and returns the last sequence number.

        Idempotent for one batch object: after an ``EngineFault`` append it again. It is written
        exactly once, even if the connection broke during the commit.
        """
        return _sql_lease(lead).append(batch)

    def settle(self, lead: LeaderLease) -> None:
        """After an ``EngineFault``: finds out whether the batch was written."""
        _sql_lease(lead).settle()

    def keep_snapshot(self, snapshot: Snapshot, lead: LeaderLease) -> None:
        """Stores a snapshot; only it and the one before it are retained."""
        self.write(lambda connection: write_snapshot(connection, snapshot), lead)

    def write(self, work: Callable[[Connection], T], lead: LeaderLease) -> T:
        """Runs idempotent work in one transaction of the leader."""
        return _sql_lease(lead).write(work)

    def close(self) -> None:
        """Releases the leader lease and closes every connection."""
        for lead in self._leads:
            lead.release()
        self.engine.dispose()


def _sql_lease(lead: LeaderLease) -> SqlLeaderLease:
    if not isinstance(lead, SqlLeaderLease):
        raise LeadershipLost(
            f"the leader lease of epoch {lead.epoch} belongs to another type of store"
        )
    return lead


def _begin_epoch(connection: Connection, address: str) -> int:
    with connection.begin():
        connection.execute(update(meta).values(epoch=meta.c.epoch + 1, leader_address=address))
        return epoch_now(connection)


# -- opening ---------------------------------------------------------------------------------------


def open_database(database: Database, *, read_only: bool) -> SqlStore:
    """The store in a database; creates the tables of a new one unless ``read_only``."""
    try:
        if read_only:
            require_tables(database)
        else:
            create_if_new(database)
    except BaseException:
        database.engine.dispose()
        raise
    return SqlStore(database, read_only=read_only)


def create_if_new(database: Database) -> None:
    """Creates the tables of a new database, under the leader lock."""
    deadline = time.monotonic() + CREATION_TIMEOUT_SECONDS
    while not has_tables(database):
        lock = database.try_leader_lock()
        if lock is not None:
            _create(database, lock)
        elif time.monotonic() > deadline:
            raise UserError(
                f"{database.shown} has no tables yet, and another process holds its lock.",
                fix="Stop that process, then retry.",
                code="store-locked",
            )
        else:
            time.sleep(0.05)


def require_tables(database: Database) -> None:
    """Fails if there are no tables yet: a reader cannot create them."""
    if not has_tables(database):
        raise UserError(
            f"{database.shown} has no tables yet.",
            fix="Run 'bursar up' on it once: it creates them.",
            code="store-is-empty",
        )


def has_tables(database: Database) -> bool:
    """Whether the tables exist; ``UserError`` if they have another version."""
    stored_version = database.version()
    if stored_version > VERSION:
        raise UserError(
            f"{database.shown} has tables of version {stored_version}; this program (Bursar {__version__}) "
            f"supports versions up to {VERSION}.",
            fix="Run the newer Bursar that wrote it, or restore a backup from before the upgrade.",
            code="store-too-new",
        )
    if 0 < stored_version < VERSION:
        raise UserError(
            f"{database.shown} has tables of version {stored_version}, written by a Bursar from before the "
            f"first release; this program (Bursar {__version__}) reads version {VERSION}.",
            fix="Start with a new state folder, or run the Bursar that wrote it.",
            code="store-too-old",
        )
    return stored_version == VERSION


def _create(database: Database, lock: LeaderLock) -> None:
    try:
        if not has_tables(database):
            create_tables(lock.connection())
    except SQLAlchemyError as error:
        raise database.fault(error) from error
    finally:
        lock.release()
