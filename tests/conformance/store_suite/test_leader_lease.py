"""There is one leader at a time, and a stale leader cannot write."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bursar.model.errors import UserError
from bursar.ports import LeaderLease, LeadershipLost, Snapshot
from bursar.store.sql_store import SqlStore
from bursar.store.tables.schema import meta
from tests.conformance.store_suite.conftest import Open
from tests.store import facts


def test_only_one_store_can_lead(store: SqlStore, open_again: Open) -> None:
    assert store.leader() is None
    lead = store.try_lead("http://one")
    assert lead is not None and lead.epoch == 1
    other = open_again()
    assert other.try_lead("http://two") is None
    assert store.try_lead("http://one") is None
    assert other.leader() == (1, "http://one")
    lead.release()
    lead.release()
    new_lead = other.try_lead("http://two")
    assert new_lead is not None and new_lead.epoch == 2
    assert store.leader() == (2, "http://two")


def test_closing_releases_the_lease(store: SqlStore, lead: LeaderLease, open_again: Open) -> None:
    store.close()
    assert open_again().try_lead("http://two") is not None


def test_a_released_lease_cannot_write(
    store: SqlStore, lead: LeaderLease, open_again: Open
) -> None:
    lead.release()
    for write in (
        lambda: store.append(facts.new_jobs(1), lead),
        lambda: store.keep_snapshot(Snapshot(sequence=1, body=""), lead),
    ):
        with pytest.raises(LeadershipLost):
            write()
    assert open_again().last_sequence() == 0


def test_a_stale_epoch_writes_nothing(store: SqlStore, lead: LeaderLease) -> None:
    """As if another had new_lead the lead while this process was not looking."""
    store.write(lambda connection: connection.execute(meta.update().values(epoch=7)), lead)
    with pytest.raises(LeadershipLost):
        store.append(facts.new_jobs(3), lead)
    with pytest.raises(LeadershipLost):
        store.keep_snapshot(Snapshot(sequence=1, body=""), lead)
    assert store.last_sequence() == 0
    assert store.snapshot() is None


def test_a_read_only_store_cannot_lead(store: SqlStore, open_again: Open) -> None:
    with pytest.raises(UserError, match="reading only"):
        open_again(read_only=True).try_lead("http://two")


def test_child_programs_do_not_hold_the_lock(
    store: SqlStore, lead: LeaderLease, open_again: Open
) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=False) as child:
        lead.release()
        assert open_again().try_lead("http://two") is not None
        assert child.stdin is not None
        child.stdin.close()
