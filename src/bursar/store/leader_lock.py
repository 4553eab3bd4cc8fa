"""The leader lock, and the transactions that only its holder may run.

A connection can break during a commit, and then its outcome is unknown: the batch is pending. Each
batch writes its id to ``meta``, so the next connection can check whether the commit succeeded. The
next append does this first.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.ports import Batch, LeadershipLost
from bursar.store.append import fence, write_batch
from bursar.store.tables.schema import meta

T = TypeVar("T")
RETRY_SECONDS = 1.0


class LeaderLock(Protocol):
    """The leader lock. It is released when the process ends, also by a crash."""

    def connection(self) -> Connection:
        """The only writing connection, reopened if it was dropped.

        No other write is under way when this returns: transactions of our earlier connections are
        committed or rolled back. Raises ``EngineFault`` while this cannot be guaranteed.
        """

    def drop(self) -> None:
        """Discards the connection after an error."""

    def release(self) -> None:
        """Closes the connection and releases the lock."""

    def drop_in_child(self) -> None:
        """Drops the inherited copy in a forked child: it would outlive the parent's lock."""


_LOCKS: weakref.WeakSet[LeaderLock] = weakref.WeakSet()


def drop_in_forks(lock: LeaderLock) -> None:
    """Drops the lock in forked children. Executed programs inherit nothing (CLOEXEC)."""
    _LOCKS.add(lock)


def _drop_in_child() -> None:
    for lock in list(_LOCKS):
        lock.drop_in_child()


os.register_at_fork(after_in_child=_drop_in_child)


@dataclass(slots=True)
class PendingCommit:
    """A batch whose commit has an unknown outcome, and its last sequence number."""

    batch: Batch
    batch_id: str
    last_sequence: int = 0


class LeaseHeld(EngineFault):
    """The leader lock is held; ``epoch`` shows whether by another leader."""

    def __init__(self, problem: str, epoch: int) -> None:
        super().__init__(problem, retry_after_seconds=RETRY_SECONDS)
        self.epoch = epoch


class _CommitUnknown(Exception):
    """The connection failed during the commit: its outcome is unknown."""

    def __init__(self, cause: SQLAlchemyError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class SqlLeaderLease:
    """``ports.LeaderLease``, and the writes under it. Thread-safe."""

    def __init__(
        self, lock: LeaderLock, epoch: int, fault: Callable[[SQLAlchemyError], Exception]
    ) -> None:
        self.epoch = epoch
        self.released = False
        self._lock = lock
        self._fault = fault
        self._pending: PendingCommit | None = None
        self._mutex = threading.RLock()

    def release(self) -> None:
        with self._mutex:
            if not self.released:
                self.released = True
                self._lock.release()

    def append(self, batch: Batch) -> int:
        """Writes a batch exactly once, also when its commit is retried."""
        with self._mutex:
            last_sequence = self._resolve_pending(batch)
            if last_sequence is not None:
                return last_sequence
            pending = PendingCommit(batch, uuid.uuid4().hex)

            def write(connection: Connection) -> int:
                pending.last_sequence = write_batch(connection, batch, self.epoch, pending.batch_id)
                return pending.last_sequence

            try:
                return self._transact(write)
            except _CommitUnknown as error:
                self._pending = pending
                last_sequence = self._resolve_pending(batch)
                if last_sequence is None:
                    raise self._fault(error.cause) from error.cause
                return last_sequence

    def settle(self) -> None:
        """Resolves a pending commit; ``EngineFault`` while the database cannot be read."""
        with self._mutex:
            if self._pending is not None:
                self._is_committed(self._pending)
                self._pending = None

    def write(self, work: Callable[[Connection], T]) -> T:
        """Runs idempotent work in one transaction of the leader."""

        def fenced(connection: Connection) -> T:
            fence(connection, self.epoch)
            return work(connection)

        with self._mutex:
            try:
                return self._transact(fenced)
            except _CommitUnknown as error:
                raise self._fault(error.cause) from error.cause

    def _resolve_pending(self, batch: Batch) -> int | None:
        """Last sequence number of ``batch`` if its pending commit succeeded, else None."""
        pending = self._pending
        if pending is None:
            return None
        is_committed = self._is_committed(pending)
        self._pending = None
        if not is_committed:
            return None
        if batch is not pending.batch:
            raise BrokenInvariant(
                f"an abandoned batch was committed up to event {pending.last_sequence}: "
                "reload the state from the log before the next write"
            )
        return pending.last_sequence

    def _is_committed(self, pending: PendingCommit) -> bool:
        """Whether the batch is in the log; ``EngineFault`` while the database cannot be read."""
        try:
            connection = self._connection()
            with connection.begin():
                last_batch, epoch = connection.execute(
                    select(meta.c.last_batch, meta.c.epoch)
                ).one()
        except (SQLAlchemyError, EngineFault) as error:
            self._lock.drop()
            raise EngineFault(
                f"the connection broke while events up to {pending.last_sequence} were committed, "
                f"and the database cannot be read yet ({_first_line(error)}). "
                "Bursar retries; the batch is written exactly once.",
                retry_after_seconds=RETRY_SECONDS,
            ) from error
        if last_batch != pending.batch_id and epoch != self.epoch:
            raise LeadershipLost(f"the leader is now that of epoch {epoch}; ours was {self.epoch}")
        return bool(last_batch == pending.batch_id)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        """Runs work in one transaction. Drops the connection after any failure."""
        is_committing = False
        try:
            connection = self._connection()
            with connection.begin() as transaction:
                result = work(connection)
                is_committing = True
                transaction.commit()
            return result
        except SQLAlchemyError as error:
            self._lock.drop()
            if is_committing:
                raise _CommitUnknown(error) from error
            raise self._fault(error) from error
        except OverflowError as error:
            self._lock.drop()
            raise BrokenInvariant(f"a number does not fit into the database: {error}") from error

    def _connection(self) -> Connection:
        if self.released:
            raise LeadershipLost(f"the leader lease of epoch {self.epoch} was released")
        try:
            return self._lock.connection()
        except LeaseHeld as held:
            if held.epoch == self.epoch:
                raise
            raise LeadershipLost(
                f"the leader is now that of epoch {held.epoch}; ours was {self.epoch}"
            ) from held


def epoch_now(connection: Connection) -> int:
    """The epoch of the current or last leader."""
    return int(connection.execute(select(meta.c.epoch)).scalar_one())


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
