"""PostgreSQL goes away and comes back while we write."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from bursar.model.errors import EngineFault
from bursar.ports import Batch, LeadershipLost
from bursar.store import open_store
from bursar.store.integrity import integrity
from bursar.store.rebuild import differences
from tests.store import facts
from tests.store.private_postgres import PrivatePostgres

pytestmark = pytest.mark.real


def test_restarted_while_batches_are_committed(postgres_server: PrivatePostgres) -> None:
    """Each batch is tried until it is acknowledged, and is there once."""
    store = open_store(postgres_server.new_database())
    lead = store.try_lead("here")
    assert lead is not None
    batches = [facts.new_jobs(20) for _ in range(150)]
    faults: list[EngineFault] = []

    def write_all() -> None:
        for batch in batches:
            while True:
                try:
                    store.append(batch, lead)
                    break
                except EngineFault as fault:
                    faults.append(fault)
                    time.sleep(0.02)

    writer = threading.Thread(target=write_all)
    writer.start()
    for _ in range(2):
        time.sleep(0.1)
        postgres_server.stop("immediate")
        postgres_server.start()
    writer.join()
    assert faults
    assert [one.event for one in store.events()] == [
        event for batch in batches for event in batch.events
    ]
    assert differences(store) == []
    assert integrity(store) == []
    store.close()


def end_sessions(address: str) -> None:
    """As an administrator might: every connection to the database is ended."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_readers_heal_after_their_connections_are_cut(fresh_postgres: str) -> None:
    store = open_store(fresh_postgres)
    assert store.last_sequence() == 0
    end_sessions(fresh_postgres)
    assert store.last_sequence() == 0
    store.close()


def test_the_lead_goes_on_if_nobody_took_it(fresh_postgres: str) -> None:
    store = open_store(fresh_postgres)
    lead = store.try_lead("here")
    assert lead is not None
    store.append(facts.new_jobs(1), lead)
    end_sessions(fresh_postgres)
    batch = facts.new_jobs(1)
    with pytest.raises(EngineFault, match="nothing was written"):
        store.append(batch, lead)
    assert store.append(batch, lead) == 2
    assert store.leader() == (1, "here")
    store.close()


def test_the_lead_is_lost_to_whoever_took_it(fresh_postgres: str) -> None:
    store, other = open_store(fresh_postgres), open_store(fresh_postgres)
    lead = store.try_lead("here")
    assert lead is not None
    end_sessions(fresh_postgres)
    taken = other.try_lead("there")
    assert taken is not None and taken.epoch == 2
    with pytest.raises(EngineFault):
        store.append(facts.new_jobs(1), lead)
    with pytest.raises(LeadershipLost):
        store.append(facts.new_jobs(1), lead)
    assert other.append(Batch(events=facts.new_jobs(1).events), taken) == 1
    store.close()
    other.close()


def test_what_remains_of_a_broken_connection_is_waited_for(fresh_postgres: str) -> None:
    """The server has not noticed yet: whether its last commit is done cannot be known before."""
    store, other = open_store(fresh_postgres), open_store(fresh_postgres)
    lead, batch = store.try_lead("here"), facts.new_jobs(1)
    assert lead is not None
    lead._lock.drop()  # type: ignore[attr-defined]
    remains = other.database.try_leader_lock()
    assert remains is not None
    with pytest.raises(EngineFault, match="still held by its old session or by another"):
        store.append(batch, lead)
    remains.release()
    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        try:
            assert store.append(batch, lead) == 1
            break
        except EngineFault:
            time.sleep(0.02)
    assert store.last_sequence() == 1
    store.close()
    other.close()
