"""After a kill no acknowledged batch is lost and no batch is partly written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bursar.ports import LeaderLease
from bursar.store import open_store
from bursar.store.integrity import integrity
from bursar.store.rebuild import differences
from bursar.store.sql_store import SqlStore
from tests.seeds import first_always
from tests.store.crash_child import EVENTS_IN_BATCH, numbered_batch

WAL_HEADER_BYTES = 32
TAKEOVER_SECONDS = 15.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("fresh_postgres"))
    return str(tmp_path / "bursar.db")


@contextmanager
def child(address: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A writing process in a process group of its own, which is killed at the end."""
    argv = [sys.executable, "-m", "tests.store.crash_child", address, *options]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def kill_after(process: subprocess.Popen[str], acknowledged: int, pause_seconds: float) -> int:
    """Kills the process after so many batches and a pause; returns its last number."""
    assert process.stdout is not None
    printed = [process.stdout.readline() for _ in range(acknowledged)]
    time.sleep(pause_seconds)
    process.kill()
    printed += process.stdout.read().splitlines()
    process.wait()
    return int(printed[-1])


def take_over(store: SqlStore) -> LeaderLease:
    """Becomes leader within the time limit for a takeover."""
    deadline = time.monotonic() + TAKEOVER_SECONDS
    while time.monotonic() < deadline:
        lead = store.try_lead("successor")
        if lead is not None:
            return lead
        time.sleep(0.05)
    raise AssertionError(f"no lease within {TAKEOVER_SECONDS} s of the leader's death")


def check_whole_batches(store: SqlStore) -> int:
    """Checks that the log has whole batches and matches the tables; returns its last number."""
    last = store.last_sequence()
    assert last % EVENTS_IN_BATCH == 0
    batches = [numbered_batch(number) for number in range(1, last // EVENTS_IN_BATCH + 1)]
    expected = [event for one in batches for event in one.events]
    recorded = list(store.events())
    assert [one.event for one in recorded] == expected
    assert [one.sequence for one in recorded] == list(range(1, last + 1))
    assert len(store.audit(10_000)) == len(batches)
    assert differences(store) == []
    assert integrity(store) == []
    return last


@pytest.mark.parametrize("seed", first_always(2, range(6)))
def test_killed_during_writes(address: str, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        with child(address) as process:
            last_seen = kill_after(process, chance.randint(1, 12), chance.random() * 0.02)
        store = open_store(address)
        lead = take_over(store)
        assert check_whole_batches(store) >= last_seen
        number = store.last_sequence() // EVENTS_IN_BATCH + 1
        store.append(numbered_batch(number), lead)
        store.close()
    reader = open_store(address, read_only=True)
    check_whole_batches(reader)
    reader.close()


def test_a_reader_reads_all_batches_after_a_crash(address: str) -> None:
    with child(address) as process:
        last_seen = kill_after(process, 5, 0)
    reader = open_store(address, read_only=True)
    assert check_whole_batches(reader) >= last_seen
    reader.close()


def test_a_fork_of_the_dead_leader_does_not_hold_the_lock(address: str) -> None:
    with child(address, "fork") as process:
        kill_after(process, 3, 0)
        store = open_store(address)
        lead = take_over(store)
        assert lead.epoch == 2
        check_whole_batches(store)
        store.close()


def test_a_stopped_leader_stays_leader(address: str) -> None:
    """The lease does not expire: a stopped process holds it, and no other can write."""
    with child(address) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        store = open_store(address)
        assert store.try_lead("successor") is None
        os.kill(process.pid, signal.SIGCONT)
        kill_after(process, 3, 0)
        take_over(store)
        check_whole_batches(store)
        store.close()


# -- a damaged end of SQLite's WAL -------------------------------------------------------------------


def damage_tail(wal: Path, chance: random.Random) -> None:
    """Simulates a power cut: the end of the WAL is missing or overwritten."""
    size = wal.stat().st_size
    at = chance.randrange(WAL_HEADER_BYTES, size)
    with wal.open("r+b") as file:
        if chance.random() < 0.5:
            file.truncate(at)
        else:
            file.seek(at)
            file.write(chance.randbytes(min(4_096, size - at)))


@pytest.mark.parametrize("seed", first_always(3, range(12)))
def test_a_damaged_wal_loses_whole_batches_only(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "bursar.db"
    open_store(path).close()
    with child(str(path)) as process:
        kill_after(process, chance.randint(2, 10), 0)
    damage_tail(tmp_path / "bursar.db-wal", chance)
    (tmp_path / "bursar.db-shm").unlink(missing_ok=True)
    reader = open_store(path, read_only=True)
    last = check_whole_batches(reader)
    reader.close()
    store = open_store(path)
    store.append(numbered_batch(last // EVENTS_IN_BATCH + 1), take_over(store))
    assert check_whole_batches(store) == last + EVENTS_IN_BATCH
    store.close()
