"""The log has no gaps, is ordered, and batches are atomic."""

from __future__ import annotations

import pytest

from bursar.model import event as ev
from bursar.model.errors import BrokenInvariant
from bursar.model.fleet.fleet import Fleet, Node
from bursar.model.tenants.policy import Policies
from bursar.ports import Batch, LeaderLease, Snapshot
from bursar.store.integrity import integrity
from bursar.store.rebuild import differences
from bursar.store.sql_store import SqlStore
from tests.conformance.store_suite.conftest import Open
from tests.store import facts


def test_a_new_store_is_empty(store: SqlStore) -> None:
    assert store.last_sequence() == 0
    assert list(store.events()) == []
    assert store.snapshot() is None
    assert store.job("j-1") is None
    assert store.origin("j-1") is None
    assert store.count_jobs(None) == {}
    assert integrity(store) == []


def test_events_are_read_in_the_order_of_appending(store: SqlStore, lead: LeaderLease) -> None:
    first = [facts.submitted("j-1"), ev.NodeAdded(at_ms=1, node=Node(id="n1", pool="a100"))]
    second = [facts.assigned("j-1"), facts.started("j-1"), facts.succeeded("j-1")]
    assert store.append(facts.batch(*first), lead) == 2
    assert store.append(facts.batch(*second), lead) == 5
    recorded = list(store.events())
    assert [one.sequence for one in recorded] == [1, 2, 3, 4, 5]
    assert [one.event for one in recorded] == first + second
    assert [one.sequence for one in store.events(after=1, limit=2)] == [2, 3]
    assert list(store.events(after=5)) == []
    assert store.last_sequence() == 5


def test_a_declared_fleet_is_stored(store: SqlStore, lead: LeaderLease) -> None:
    fleet = Fleet(clusters=(), pools=(), nodes=())
    declared = ev.FleetDeclared(at_ms=1, fleet=fleet, tenants=(), policies=Policies())
    store.append(facts.batch(declared), lead)
    assert [one.event for one in store.events()] == [declared]


def test_a_long_log_is_read_in_pages(store: SqlStore, lead: LeaderLease) -> None:
    store.append(facts.new_jobs(2_500), lead)
    assert [one.sequence for one in store.events()] == list(range(1, 2_501))
    assert integrity(store) == []


def test_nothing_of_a_contradictory_batch_is_written(store: SqlStore, lead: LeaderLease) -> None:
    store.append(facts.batch(facts.submitted("j-1")), lead)
    for bad in (
        facts.batch(facts.submitted("j-2"), facts.submitted("j-1")),
        facts.batch(facts.submitted("j-2"), facts.assigned("j-2", attempt=4)),
        facts.batch(facts.submitted("j-2"), facts.assigned("j-9")),
    ):
        with pytest.raises(BrokenInvariant):
            store.append(bad, lead)
        assert store.last_sequence() == 1
        assert store.job("j-2") is None
    assert store.append(facts.batch(facts.submitted("j-3")), lead) == 2
    assert differences(store) == []


def test_an_empty_batch_changes_nothing(store: SqlStore, lead: LeaderLease) -> None:
    assert store.append(Batch(), lead) == 0


def test_another_store_reads_committed_events(open_again: Open, lead: LeaderLease) -> None:
    store, other = open_again(), open_again(read_only=True)
    store.append(facts.batch(facts.submitted("j-1")), lead)
    assert other.last_sequence() == 1
    row = other.job("j-1")
    assert row is not None and row.name == "j-1"


def test_events_persist_after_closing(open_again: Open) -> None:
    store = open_again()
    lead = store.try_lead("a")
    assert lead is not None
    store.append(facts.batch(facts.submitted("j-1")), lead)
    store.close()
    assert [one.event for one in open_again().events()] == [facts.submitted("j-1")]


def test_the_two_newest_snapshots_are_retained(store: SqlStore, lead: LeaderLease) -> None:
    for sequence in (3, 5, 9):
        store.keep_snapshot(Snapshot(sequence=sequence, body=f"at {sequence}"), lead)
    assert store.snapshot() == Snapshot(sequence=9, body="at 9")
    store.keep_snapshot(Snapshot(sequence=9, body="again"), lead)
    assert store.snapshot() == Snapshot(sequence=9, body="again")
    with store.reading() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM snapshots").scalar_one()
    assert count == 2


def test_unusual_characters_are_read_back_unchanged(store: SqlStore, lead: LeaderLease) -> None:
    """An invalid character in one job must not fail the jobs of other users."""
    odd = 'quote " priority ,"priority":9} backslash \\ nul \0 half \ud800 snowman ☃ ,"spec":{"name":"x"'
    job = facts.submitted("j-1", name=odd)
    origin = facts.origin(owner=odd, labels={odd: odd}, secrets={odd: odd})
    store.append(facts.batch(job, origins={"j-1": origin}), lead)
    assert next(store.events()).event == job
    row = store.job("j-1")
    assert row is not None and row.name == odd and row.labels == {odd: odd}
    assert row.spec == job.spec
    stored = store.origin("j-1")
    assert stored is not None and stored.recipe.secrets == {odd: odd}
    assert differences(store) == []
