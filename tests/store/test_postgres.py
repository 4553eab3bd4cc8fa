"""PostgreSQL restarts and drops connections during writes."""

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


def test_batches_survive_server_restarts(postgres_server: PrivatePostgres) -> None:
    """Each batch is retried until it is committed, and is in the log once."""
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
    """Ends every connection to the database, as an administrator might."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_readers_reconnect(fresh_postgres: str) -> None:
    store = open_store(fresh_postgres)
    assert store.last_sequence() == 0
    end_sessions(fresh_postgres)
    assert store.last_sequence() == 0
    store.close()


def test_the_leader_continues_if_no_other_took_over(fresh_postgres: str) -> None:
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


def test_leadership_is_lost_if_another_took_over(fresh_postgres: str) -> None:
    store, other = open_store(fresh_postgres), open_store(fresh_postgres)
    lead = store.try_lead("here")
    assert lead is not None
    end_sessions(fresh_postgres)
    new_lead = other.try_lead("there")
    assert new_lead is not None and new_lead.epoch == 2
    with pytest.raises(EngineFault):
        store.append(facts.new_jobs(1), lead)
    with pytest.raises(LeadershipLost):
        store.append(facts.new_jobs(1), lead)
    assert other.append(Batch(events=facts.new_jobs(1).events), new_lead) == 1
    store.close()
    other.close()


def test_a_leader_waits_for_the_end_of_its_old_session(fresh_postgres: str) -> None:
    """Until the server ends the session, the outcome of its last commit is unknown."""
    store, other = open_store(fresh_postgres), open_store(fresh_postgres)
    lead, batch = store.try_lead("here"), facts.new_jobs(1)
    assert lead is not None
    lead._lock.drop()  # type: ignore[attr-defined]
    old_session = other.database.try_leader_lock()
    assert old_session is not None
    with pytest.raises(EngineFault, match="still held by its old session or by another"):
        store.append(batch, lead)
    old_session.release()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            assert store.append(batch, lead) == 1
            break
        except EngineFault:
            time.sleep(0.02)
    assert store.last_sequence() == 1
    store.close()
    other.close()
