"""The control plane is killed while nodes are interrupted: jobs succeed and attempts never overlap."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from bursar.control.live.live_state import LiveState
from bursar.model.event import NodeLost, SpotNotice
from bursar.model.jobs.job import JobState
from bursar.store import open_store
from bursar.store.rebuild import differences
from tests.crash.effects import read_runs, shared_devices
from tests.crash.program import run_program
from tests.support.state_audit import state_faults

SEEDS = (5, 6)
KILLS = 10
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"seed {seed}")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    ended = run_program("interrupted_nodes", folder, request.param, KILLS)
    assert ended["killed"] >= KILLS // 2, ended
    return folder


def test_every_acknowledged_job_succeeds_and_no_interruption_is_a_failure(folder: Path) -> None:
    store = open_store(folder / "bursar.db", read_only=True)
    try:
        jobs = (folder / "acknowledged").read_text(encoding="utf-8").split()
        rows = [store.job(job) for job in sorted(set(jobs))]
        counted = Counter(type(one.event) for one in store.events())
    finally:
        store.close()
    assert {row.state for row in rows if row is not None} == {JobState.SUCCEEDED}
    assert {row.failures for row in rows if row is not None} == {0}
    assert counted[SpotNotice] and counted[NodeLost], (
        "no node was interrupted, so this test proves nothing"
    )


def test_no_two_attempts_of_a_job_overlap_and_no_gpu_is_assigned_twice(
    folder: Path,
) -> None:
    runs = read_runs(folder / "effects")
    by_job: dict[str, list[tuple[int, int]]] = {}
    for run in runs:
        if run.to_ns is not None:
            by_job.setdefault(run.job_id, []).append((run.from_ns, run.to_ns))
    for job, times in by_job.items():
        for earlier, later in pairwise(sorted(times)):
            assert earlier[1] <= later[0], job
    assert list(shared_devices([run for run in runs if run.to_ns is not None])) == []


def test_every_node_returns_and_the_tables_match_the_log(folder: Path) -> None:
    store = open_store(folder / "bursar.db", read_only=True)
    try:
        assert list(differences(store)) == []
        live = LiveState()
        live.catch_up(store)
    finally:
        store.close()
    assert state_faults(live.state) == []
    assert live.declared is not None
    missing = {node.id for node in live.declared.fleet.nodes} - live.state.pool_of_node.keys()
    outages = json.loads((folder / "state" / "engine" / "outages").read_text(encoding="utf-8"))
    assert missing | live.state.notices.keys() <= {one["node"] for one in outages}
