"""The connection breaks during a commit: the batch is still written exactly once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from bursar.model.errors import BrokenInvariant, EngineFault
from bursar.ports import LeaderLease, LeadershipLost
from bursar.store.leader_lock import SqlLeaderLease
from bursar.store.rebuild import differences
from bursar.store.sql_store import SqlStore
from bursar.store.tables.schema import meta
from tests.store import facts

Break = Callable[..., None]


@pytest.fixture
def break_commit(lead: LeaderLease, monkeypatch: pytest.MonkeyPatch) -> Break:
    """Makes the next commit fail, before or after it is done; optionally also the reconnect."""
    assert isinstance(lead, SqlLeaderLease)
    lock: Any = lead._lock
    dialect = lock._engine.dialect

    def arrange(*, is_done: bool, is_reachable: bool = True) -> None:
        def commit(connection: Any) -> None:
            monkeypatch.undo()
            if is_done:
                connection.commit()
            if not is_reachable:
                monkeypatch.setattr(lock, "connection", unreachable)
            raise _broken(dialect.name)

        monkeypatch.setattr(dialect, "do_commit", commit)

    def unreachable() -> None:
        monkeypatch.undo()
        raise EngineFault("still unreachable", retry_after_seconds=1)

    return arrange


def _broken(dialect: str) -> Exception:
    if dialect == "sqlite":
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR  # type: ignore[misc]
        return error
    import psycopg

    return psycopg.OperationalError("server closed the connection unexpectedly")


def test_a_completed_commit_is_recognised(
    store: SqlStore, lead: LeaderLease, break_commit: Break
) -> None:
    break_commit(is_done=True)
    assert store.append(facts.new_jobs(3), lead) == 3
    assert store.append(facts.new_jobs(3), lead) == 6
    assert differences(store) == []


def test_a_failed_commit_is_a_fault(
    store: SqlStore, lead: LeaderLease, break_commit: Break
) -> None:
    break_commit(is_done=False)
    batch = facts.new_jobs(3)
    with pytest.raises(EngineFault, match="nothing was written"):
        store.append(batch, lead)
    assert store.last_sequence() == 0
    assert store.append(batch, lead) == 3


@pytest.mark.parametrize("is_done", [True, False])
def test_the_same_batch_can_be_retried(
    store: SqlStore, lead: LeaderLease, break_commit: Break, is_done: bool
) -> None:
    break_commit(is_done=is_done, is_reachable=False)
    batch = facts.new_jobs(3)
    with pytest.raises(EngineFault, match="the database cannot be read yet"):
        store.append(batch, lead)
    assert store.append(batch, lead) == 3
    assert store.append(facts.new_jobs(1), lead) == 4
    assert differences(store) == []


def test_another_batch_is_rejected_if_the_pending_one_was_committed(
    store: SqlStore, lead: LeaderLease, break_commit: Break
) -> None:
    break_commit(is_done=True, is_reachable=False)
    with pytest.raises(EngineFault):
        store.append(facts.new_jobs(3), lead)
    with pytest.raises(BrokenInvariant, match="reload the state from the log"):
        store.append(facts.new_jobs(1), lead)
    assert store.last_sequence() == 3


def test_another_batch_is_accepted_if_the_pending_one_was_not_committed(
    store: SqlStore, lead: LeaderLease, break_commit: Break
) -> None:
    break_commit(is_done=False, is_reachable=False)
    with pytest.raises(EngineFault):
        store.append(facts.new_jobs(3), lead)
    assert store.append(facts.new_jobs(1), lead) == 1


def test_a_new_leader_ends_a_pending_commit(
    store: SqlStore, lead: LeaderLease, break_commit: Break
) -> None:
    break_commit(is_done=False, is_reachable=False)
    batch = facts.new_jobs(3)
    with pytest.raises(EngineFault):
        store.append(batch, lead)
    store.write(lambda connection: connection.execute(meta.update().values(epoch=5)), lead)
    with pytest.raises(LeadershipLost):
        store.append(batch, lead)
    assert store.last_sequence() == 0
