"""The right to write, and writing with it.

The commit of a transaction can break off so that nobody knows whether it was done. Each batch leaves
an id of its own in ``meta``: whoever gets the lock and a connection again finds it there, or not. Until
then the batch is in doubt, and the next append settles that first.
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
SETTLE_AFTER_SECONDS = 1.0


class LeaderLock(Protocol):
    """The lock of the lead. It ends with the process, whatever ends that."""

    def connection(self) -> Connection:
        """The one connection that may write, opened again if it was dropped.

        Nobody else can be in the middle of a write when this returns: what an earlier connection of
        ours began is committed or gone. Raises ``EngineFault`` while that cannot be had.
        """

    def drop(self) -> None:
        """The connection is not to be trusted any more."""

    def release(self) -> None:
        """Close the connection and give up the lock."""

    def forget_in_child(self) -> None:
        """We are a fork of the process that holds the lock: do not keep it alive when that ends."""


_HOLDS: weakref.WeakSet[LeaderLock] = weakref.WeakSet()


def forget_in_forks(hold: LeaderLock) -> None:
    """A forked child has copies of all that is open. Programs it starts have not: all is CLOEXEC."""
    _HOLDS.add(hold)


def _forget() -> None:
    for hold in list(_HOLDS):
        hold.forget_in_child()


os.register_at_fork(after_in_child=_forget)


@dataclass(slots=True)
class PendingCommit:
    """A batch that may or may not be in the log, and the answer if it is."""

    batch: Batch
    batch_id: str
    last_sequence: int = 0


class LeaseHeld(EngineFault):
    """The lock of the lead cannot be had again; ``epoch`` tells whether somebody else has it."""

    def __init__(self, problem: str, epoch: int) -> None:
        super().__init__(problem, retry_after_seconds=SETTLE_AFTER_SECONDS)
        self.epoch = epoch


class _Unconfirmed(Exception):
    """The commit was begun; whether it was done is not known."""

    def __init__(self, cause: SQLAlchemyError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class SqlLeaderLease:
    """``ports.Lead``, with all that is written under it. Calls from several threads take turns."""

    def __init__(
        self, hold: LeaderLock, epoch: int, fault: Callable[[SQLAlchemyError], Exception]
    ) -> None:
        self.epoch = epoch
        self.released = False
        self._hold = hold
        self._fault = fault
        self._doubt: PendingCommit | None = None
        self._turn = threading.RLock()

    def release(self) -> None:
        """Give it up, so that another need not wait."""
        with self._turn:
            if not self.released:
                self.released = True
                self._hold.release()

    def append(self, batch: Batch) -> int:
        """Write a batch once, however often its commit breaks off."""
        with self._turn:
            known = self._settled(batch)
            if known is not None:
                return known
            doubt = PendingCommit(batch, uuid.uuid4().hex)

            def write(connection: Connection) -> int:
                doubt.last_sequence = write_batch(connection, batch, self.epoch, doubt.batch_id)
                return doubt.last_sequence

            try:
                return self._transact(write)
            except _Unconfirmed as error:
                self._doubt = doubt
                known = self._settled(batch)
                if known is None:
                    raise self._fault(error.cause) from error.cause
                return known

    def settle(self) -> None:
        """Find out whether a batch in doubt is in the log; ``EngineFault`` while that cannot be known."""
        with self._turn:
            if self._doubt is not None:
                self._find(self._doubt)
                self._doubt = None

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do something else that may be done twice, in one transaction of the leader's."""

        def fenced(connection: Connection) -> T:
            fence(connection, self.epoch)
            return work(connection)

        with self._turn:
            try:
                return self._transact(fenced)
            except _Unconfirmed as error:
                raise self._fault(error.cause) from error.cause

    def _settled(self, batch: Batch) -> int | None:
        """The answer to a batch that turns out to be in the log; None when there is none to give."""
        doubt = self._doubt
        if doubt is None:
            return None
        is_there = self._find(doubt)
        self._doubt = None
        if not is_there:
            return None
        if batch is not doubt.batch:
            raise BrokenInvariant(
                f"a batch that was given up is in the log up to event {doubt.last_sequence}: "
                "load the state from the log again before writing more"
            )
        return doubt.last_sequence

    def _find(self, doubt: PendingCommit) -> bool:
        """Whether the batch is in the log; ``EngineFault`` while that cannot be known."""
        try:
            connection = self._connection()
            with connection.begin():
                last_batch, epoch = connection.execute(
                    select(meta.c.last_batch, meta.c.epoch)
                ).one()
        except (SQLAlchemyError, EngineFault) as error:
            self._hold.drop()
            raise EngineFault(
                f"the database broke off while events up to {doubt.last_sequence} were being "
                f"committed, and cannot be asked yet whether they are there ({_first_line(error)}). "
                "The same batch will be tried again and is written once.",
                retry_after_seconds=SETTLE_AFTER_SECONDS,
            ) from error
        if last_batch != doubt.batch_id and epoch != self.epoch:
            raise LeadershipLost(f"epoch {epoch} has begun; ours was {self.epoch}")
        return bool(last_batch == doubt.batch_id)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        """One transaction: all of it or nothing. The connection is dropped after any failure of it."""
        is_committing = False
        try:
            connection = self._connection()
            with connection.begin() as transaction:
                result = work(connection)
                is_committing = True
                transaction.commit()
            return result
        except SQLAlchemyError as error:
            self._hold.drop()
            if is_committing:
                raise _Unconfirmed(error) from error
            raise self._fault(error) from error
        except OverflowError as error:
            self._hold.drop()
            raise BrokenInvariant(f"a number does not fit into the database: {error}") from error

    def _connection(self) -> Connection:
        if self.released:
            raise LeadershipLost(f"the lead of epoch {self.epoch} was given up")
        try:
            return self._hold.connection()
        except LeaseHeld as held:
            if held.epoch == self.epoch:
                raise
            raise LeadershipLost(f"epoch {held.epoch} has begun; ours was {self.epoch}") from held


def epoch_now(connection: Connection) -> int:
    """The epoch of the present or last leader."""
    return int(connection.execute(select(meta.c.epoch)).scalar_one())


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
