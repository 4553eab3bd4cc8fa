"""SQLite faults: writes are atomic, errors name the remedy, and retries succeed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from bursar.model.errors import EngineFault
from bursar.ports import Batch, LeadershipLost
from bursar.store import open_store, sqlite_warning
from bursar.store.backends import sqlite
from bursar.store.integrity import integrity
from bursar.store.leader_lock import SqlLeaderLease
from bursar.store.rebuild import differences
from bursar.store.sql_store import SqlStore
from tests.store import facts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(tmp_path / "bursar.db")
    yield opened
    opened.close()


@pytest.fixture
def lead(store: SqlStore) -> SqlLeaderLease:
    lease = store.try_lead("here")
    assert isinstance(lease, SqlLeaderLease)
    store.append(facts.new_jobs(10), lease)
    return lease


def set_writer(lead: SqlLeaderLease, pragma: str) -> None:
    def execute(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA {pragma}")

    lead.write(execute)


def fault_of(store: SqlStore, lead: SqlLeaderLease, batch: Batch) -> EngineFault:
    before = list(store.events())
    with pytest.raises(EngineFault) as caught:
        store.append(batch, lead)
    assert list(store.events()) == before
    assert differences(store) == []
    assert caught.value.retry_after_seconds > 0
    return caught.value


def assert_retry_succeeds(store: SqlStore, lead: SqlLeaderLease, batch: Batch) -> None:
    last = store.last_sequence()
    assert store.append(batch, lead) == last + len(batch.events)
    assert differences(store) == []
    assert integrity(store) == []


def test_a_full_disk(store: SqlStore, lead: SqlLeaderLease) -> None:
    """The limit ends with the connection, as if space had been freed."""
    with store.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    set_writer(lead, f"max_page_count = {pages + 2}")
    batch = facts.new_jobs(200)
    fault = fault_of(store, lead, batch)
    assert "is full" in str(fault) and "MiB free)" in str(fault)
    assert_retry_succeeds(store, lead, batch)


def test_a_read_only_database(store: SqlStore, lead: SqlLeaderLease) -> None:
    set_writer(lead, "query_only = ON")
    batch = facts.new_jobs(3)
    assert "cannot be opened or written" in str(fault_of(store, lead, batch))
    assert_retry_succeeds(store, lead, batch)


def test_a_database_locked_by_another_program(
    store: SqlStore, lead: SqlLeaderLease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_writer(lead, "busy_timeout = 20")
    other = sqlite3.connect(tmp_path / "bursar.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    batch = facts.new_jobs(3)
    assert "another program has locked" in str(fault_of(store, lead, batch))
    other.execute("ROLLBACK")
    other.close()
    assert_retry_succeeds(store, lead, batch)


LIMITED = """
import resource, signal, sys
from bursar.model.errors import EngineFault
from bursar.store import open_store
from tests.store import facts
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = open_store(sys.argv[1])
lead = store.try_lead("child")
most = 400_000
resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
last = 0
while True:
    batch = facts.new_jobs(20)
    try:
        last = store.append(batch, lead)
    except EngineFault as fault:
        print(last, store.last_sequence(), fault, sep="\\n")
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.append(batch, lead))
"""


def test_a_file_size_limit(tmp_path: Path) -> None:
    """A kernel limit that SQLite reaches during a write, like a full disk."""
    path = tmp_path / "bursar.db"
    argv = [sys.executable, "-c", LIMITED, str(path)]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    acknowledged, stored, text, retried = int(lines[0]), int(lines[1]), lines[2], int(lines[3])
    assert acknowledged == stored > 0
    assert "nothing was written" in text
    assert retried == stored + 20
    store = open_store(path)
    assert store.last_sequence() == retried
    assert differences(store) == []
    assert integrity(store) == []
    store.close()


def test_damage_is_distinguished_from_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "bursar.db"
    store = open_store(path)
    lead = store.try_lead("here")
    assert lead is not None
    store.append(facts.new_jobs(500), lead)
    store.close()
    with path.open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(b"\xff" * 40 * 4_096)
    with pytest.raises(EngineFault, match=r"is damaged .*bursar doctor"):
        open_store(path)


def test_a_deleted_lock_file(store: SqlStore, lead: SqlLeaderLease, tmp_path: Path) -> None:
    """Two processes hold a lock then; the epoch decides which is leader."""
    (tmp_path / "bursar.db.lead").unlink()
    other = open_store(tmp_path / "bursar.db")
    second = other.try_lead("there")
    assert second is not None and second.epoch == 2
    with pytest.raises(LeadershipLost):
        store.append(facts.new_jobs(1), lead)
    assert other.append(facts.new_jobs(1), second) == 11
    other.close()


def test_exactly_one_connection_writes_and_checkpoints(
    store: SqlStore, lead: SqlLeaderLease
) -> None:
    with store.reading() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "query_only", "wal_autocheckpoint")
        }
        assert settings == {"journal_mode": "wal", "query_only": 1, "wal_autocheckpoint": 0}
        with pytest.raises(Exception, match="readonly"):
            connection.exec_driver_sql("DELETE FROM events")

    def read_settings(connection: Connection) -> tuple[int, int]:
        full = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
        return full, connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar_one()

    assert lead.write(read_settings) == (2, sqlite.CHECKPOINT_PAGES)


def test_secrets_are_removed_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bursar.db"
    store = open_store(path)
    lead = store.try_lead("here")
    assert lead is not None
    origin = facts.origin(secrets={"TOKEN": "s3cret-of-ann"})
    store.append(facts.batch(facts.submitted("j-1"), origins={"j-1": origin}), lead)
    store.append(facts.batch(facts.cancelled("j-1")), lead)
    lead.release()
    assert b"s3cret-of-ann" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    store.close()


@pytest.mark.parametrize(
    ("version", "has_warning"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 54, 1), False),
    ],
)
def test_versions_with_the_bug_have_a_warning(version: tuple[int, ...], has_warning: bool) -> None:
    assert (sqlite_warning(version) is not None) == has_warning
    assert sqlite_warning() == sqlite_warning(sqlite3.sqlite_version_info)
