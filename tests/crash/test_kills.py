"""kill -9 at a hundred boundaries, under load, with real processes and a real database."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.accounting.ledger.entry import AccountKind
from bursar.control.live.live_ledger import ledger_differences
from bursar.control.live.live_state import LiveState
from bursar.core.state.snapshot import to_snapshot
from bursar.model.jobs.job import JobState
from bursar.store import open_store
from bursar.store.rebuild import differences
from tests.crash.effects import read_runs, run_more_than_once, shared_devices
from tests.crash.program import run_program
from tests.seeds import first_always
from tests.support.state_audit import state_faults

SEEDS = (1, 2, 3, 4)
KILLS = 26
"""Of each of four seeds; more than a hundred together."""


@pytest.fixture(scope="module", params=first_always(1, SEEDS), ids=lambda seed: f"seed {seed}")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder after all processes of a seed."""
    folder = tmp_path_factory.mktemp("killed")
    ended = run_program("killed_processes", folder, request.param, KILLS)
    assert ended["killed"] >= KILLS - 2, f"too few were killed: {ended}"
    return folder


def acknowledged(folder: Path) -> set[str]:
    return set((folder / "acknowledged").read_text(encoding="utf-8").split())


def test_no_acknowledged_job_is_lost(folder: Path) -> None:
    store = open_store(folder / "bursar.db", read_only=True)
    try:
        jobs = acknowledged(folder)
        assert len(jobs) > KILLS
        states = {job: row.state if (row := store.job(job)) else None for job in jobs}
    finally:
        store.close()
    assert set(states.values()) == {JobState.SUCCEEDED}, states


def test_no_job_ran_twice_or_incompletely(folder: Path) -> None:
    runs = read_runs(folder / "effects")
    assert run_more_than_once(runs) == []
    assert [run.job_id for run in runs if run.to_ns is None] == []
    assert acknowledged(folder) <= {run.job_id for run in runs}


def test_no_gpu_was_assigned_twice(folder: Path) -> None:
    assert list(shared_devices(read_runs(folder / "effects"))) == []


def test_the_tables_match_the_log(folder: Path) -> None:
    store = open_store(folder / "bursar.db", read_only=True)
    try:
        assert list(differences(store)) == []
        sequences = [recorded.sequence for recorded in store.events()]
    finally:
        store.close()
    assert sequences == list(range(1, len(sequences) + 1))


def test_a_snapshot_and_the_whole_log_give_the_same_state(folder: Path) -> None:
    store = open_store(folder / "bursar.db", read_only=True)
    try:
        short, long = LiveState(), LiveState()
        assert store.snapshot() is not None, "the last process ended normally and stored one"
        short.catch_up(store)
        for recorded in store.events():
            long.apply([recorded.event])
    finally:
        store.close()
    assert short.sequence == long.sequence
    assert short.declared is not None and long.declared is not None
    now_ms = long.last_event_ms
    assert to_snapshot(short.state, short.declared, now_ms) == to_snapshot(
        long.state, long.declared, now_ms
    )
    assert list(ledger_differences(short.books, long.books, now_ms)) == []
    assert long.books.ledger.at(now_ms).by_kind()[AccountKind.USAGE] > 0
    assert not long.books.spending.holds, "all jobs are over: nothing is held of the budget"
    assert not state_faults(long.state)
