"""What a store needs of a database, and the store itself: the same for SQLite and PostgreSQL."""

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
CREATION_PATIENCE_SECONDS = 30.0
"""How long to wait for another process that creates the same database."""


class Database(Protocol):
    """One database: how it is read, who may write to it, and what its errors mean."""

    shown: str
    """Its name for people, without a password."""
    engine: Engine
    """For reading, from any thread."""

    def version(self) -> int:
        """Of its tables; 0 when there are none yet. ``UserError`` when it is not ours."""

    def try_hold(self) -> LeaderLock | None:
        """The lock of the lead with the one connection that may write; never waits."""

    def fault(self, error: SQLAlchemyError) -> Exception:
        """What an error of the database is to our callers."""


class SqlStore(SqlReader):
    """``ports.Store`` on a SQL database."""

    def __init__(self, database: Database, *, read_only: bool) -> None:
        super().__init__(database.engine, database.fault)
        self.database = database
        self.read_only = read_only
        self._leads: list[SqlLeaderLease] = []
        self._taking = threading.Lock()

    def try_lead(self, address: str) -> LeaderLease | None:
        """Take the lead if nobody has it; never waits."""
        if self.read_only:
            raise UserError(
                f"{self.database.shown} was opened for reading only.",
                fix="Open it without read_only to lead.",
                code="store-read-only",
            )
        with self._taking:
            hold = self.database.try_hold()
            if hold is None:
                return None
            try:
                epoch = _begin_epoch(hold.connection(), address)
            except BaseException as error:
                hold.release()
                if isinstance(error, SQLAlchemyError):
                    raise self.database.fault(error) from error
                raise
            lead = SqlLeaderLease(hold, epoch, self.database.fault)
            self._leads = [one for one in self._leads if not one.released] + [lead]
            return lead

    def append(self, batch: Batch, lead: LeaderLease) -> int:
        """Write a batch in one durable transaction and give the last sequence number.

        After an ``EngineFault`` the same batch object may be appended again: also when the connection
        broke while it was being committed it is written exactly once.
        """
        return _ours(lead).append(batch)

    def settle(self, lead: LeaderLease) -> None:
        """After an ``EngineFault``: from here on the log says whether the batch was written."""
        _ours(lead).settle()

    def keep_snapshot(self, snapshot: Snapshot, lead: LeaderLease) -> None:
        """Keep a snapshot and the one before it."""
        self.write(lambda connection: write_snapshot(connection, snapshot), lead)

    def write(self, work: Callable[[Connection], T], lead: LeaderLease) -> T:
        """Do something that may be done twice, in one transaction of the leader's."""
        return _ours(lead).write(work)

    def close(self) -> None:
        """Give up the lead, if it is ours, and every connection."""
        for lead in self._leads:
            lead.release()
        self.engine.dispose()


def _ours(lead: LeaderLease) -> SqlLeaderLease:
    if not isinstance(lead, SqlLeaderLease):
        raise LeadershipLost(f"the lead of epoch {lead.epoch} was given by another kind of store")
    return lead


def _begin_epoch(connection: Connection, address: str) -> int:
    with connection.begin():
        connection.execute(update(meta).values(epoch=meta.c.epoch + 1, leader_address=address))
        return epoch_now(connection)


# -- versions ----------------------------------------------------------------------------------------


def create_if_new(database: Database) -> None:
    """Create the tables of a new database, alone: whoever does holds the lead meanwhile."""
    give_up_at = time.monotonic() + CREATION_PATIENCE_SECONDS
    while not has_tables(database):
        hold = database.try_hold()
        if hold is not None:
            _create(database, hold)
        elif time.monotonic() > give_up_at:
            raise UserError(
                f"{database.shown} has no tables yet, and another process holds its lock.",
                fix="Stop that process, then start this one again.",
                code="store-locked",
            )
        else:
            time.sleep(0.05)


def require_tables(database: Database) -> None:
    """For those who only read: the tables must be there already."""
    if not has_tables(database):
        raise UserError(
            f"{database.shown} has no tables yet.",
            fix="Start 'bursar up' on it once: it creates them.",
            code="store-is-empty",
        )


def has_tables(database: Database) -> bool:
    """Whether the tables are there; those of another version are refused."""
    found = database.version()
    if found > VERSION:
        raise UserError(
            f"{database.shown} has tables of version {found}; this program (Bursar {__version__}) "
            f"knows them up to version {VERSION}.",
            fix="Run the newer Bursar that wrote it, or restore a backup from before the upgrade.",
            code="store-too-new",
        )
    if 0 < found < VERSION:
        raise UserError(
            f"{database.shown} has tables of version {found}, written by a Bursar from before the "
            f"first release; this program (Bursar {__version__}) reads version {VERSION}.",
            fix="Start with a new state folder, or run the Bursar that wrote it.",
            code="store-too-old",
        )
    return found == VERSION


def _create(database: Database, hold: LeaderLock) -> None:
    try:
        if not has_tables(database):
            create_tables(hold.connection())
    except SQLAlchemyError as error:
        raise database.fault(error) from error
    finally:
        hold.release()
