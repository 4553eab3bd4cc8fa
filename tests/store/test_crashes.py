"""Killed at any moment, nothing acknowledged is lost and nothing is half there."""

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
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("fresh_postgres"))
    return str(tmp_path / "bursar.db")


@contextmanager
def child(where: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own group that writes; everything in the group is killed at the end."""
    argv = [sys.executable, "-m", "tests.store.crash_child", where, *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as found:
        try:
            yield found
        finally:
            with suppress(ProcessLookupError):
                os.killpg(found.pid, signal.SIGKILL)


def kill_after(process: subprocess.Popen[str], acknowledged: int, pause_seconds: float) -> int:
    """Let so many batches be acknowledged, then a little time pass; the last number seen."""
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(acknowledged)]
    time.sleep(pause_seconds)
    process.kill()
    seen += process.stdout.read().splitlines()
    process.wait()
    return int(seen[-1])


def preempt_for(store: SqlStore) -> LeaderLease:
    """The lead, within the time in which another process must have it."""
    give_up_at = time.monotonic() + TAKEOVER_SECONDS
    while time.monotonic() < give_up_at:
        lead = store.try_lead("heir")
        if lead is not None:
            return lead
        time.sleep(0.05)
    raise AssertionError(f"no lead within {TAKEOVER_SECONDS} s of the leader's death")


def assert_a_prefix(store: SqlStore) -> int:
    """Whole batches from the first on, and tables that follow from them; the last number."""
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
def test_killed_while_it_writes(where: str, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        with child(where) as process:
            last_seen = kill_after(process, chance.randint(1, 12), chance.random() * 0.02)
        store = open_store(where)
        lead = preempt_for(store)
        assert assert_a_prefix(store) >= last_seen
        number = store.last_sequence() // EVENTS_IN_BATCH + 1
        store.append(numbered_batch(number), lead)
        store.close()
    reader = open_store(where, read_only=True)
    assert_a_prefix(reader)
    reader.close()


def test_a_reader_sees_all_after_a_crash(where: str) -> None:
    with child(where) as process:
        last_seen = kill_after(process, 5, 0)
    reader = open_store(where, read_only=True)
    assert assert_a_prefix(reader) >= last_seen
    reader.close()


def test_a_fork_of_the_dead_leader_does_not_keep_the_lead(where: str) -> None:
    with child(where, "fork") as process:
        kill_after(process, 3, 0)
        store = open_store(where)
        lead = preempt_for(store)
        assert lead.epoch == 2
        assert_a_prefix(store)
        store.close()


def test_a_stopped_leader_keeps_the_lead_and_goes_on(where: str) -> None:
    """No lease runs out: whoever is asleep still has it, and nobody else writes meanwhile."""
    with child(where) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        store = open_store(where)
        assert store.try_lead("heir") is None
        os.kill(process.pid, signal.SIGCONT)
        kill_after(process, 3, 0)
        preempt_for(store)
        assert_a_prefix(store)
        store.close()


# -- a torn end of SQLite's log of changes -----------------------------------------------------------


def spoil_tail(wal: Path, chance: random.Random) -> None:
    """What a power cut may leave: the end is missing, or is not what was written."""
    size = wal.stat().st_size
    at = chance.randrange(WAL_HEADER_BYTES, size)
    with wal.open("r+b") as file:
        if chance.random() < 0.5:
            file.truncate(at)
        else:
            file.seek(at)
            file.write(chance.randbytes(min(4_096, size - at)))


@pytest.mark.parametrize("seed", first_always(3, range(12)))
def test_a_torn_end_costs_whole_batches_only(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "bursar.db"
    open_store(path).close()
    with child(str(path)) as process:
        kill_after(process, chance.randint(2, 10), 0)
    spoil_tail(tmp_path / "bursar.db-wal", chance)
    (tmp_path / "bursar.db-shm").unlink(missing_ok=True)
    reader = open_store(path, read_only=True)
    last = assert_a_prefix(reader)
    reader.close()
    store = open_store(path)
    store.append(numbered_batch(last // EVENTS_IN_BATCH + 1), preempt_for(store))
    assert assert_a_prefix(store) == last + EVENTS_IN_BATCH
    store.close()
