"""The ledger of the live state: queries and restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from bursar.accounting.ledger.meter import Meter
from bursar.codec import from_text, to_text
from bursar.control.control_plane import ControlPlane
from bursar.control.live.live_ledger import LedgerSnapshot, LiveLedger, ledger_differences
from bursar.control.live.live_state import LiveState
from bursar.model.event import LoggedEvent
from bursar.model.jobs.job import JobState
from bursar.model.units import DAY_MS
from bursar.ports import Snapshot
from bursar.store import open_store
from bursar.wiring.verify_store import prove
from tests.accounting.ledger.test_meter import SCENARIOS
from tests.accounting.scene import Scene, ms
from tests.control.harness import ControlPlaneHarness, gpu_job, submit, until_state
from tests.support.book_views import by_job


def cost_of(plane: ControlPlane, job: str) -> int:
    """The amount posted for a job so far."""
    return plane.query_ledger(lambda ledger, _state, _now_ms: by_job(ledger.books)[job]).result(5)


def test_the_cost_of_a_job_can_be_queried_while_it_runs_and_after_its_end(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        first = plane.query_ledger(lambda ledger, _, now: by_job(ledger.at(now + 3_600_000))[job])
        assert 400_000 <= first.result(5) < 401_000, "one GPU of four, at $1.60, for an hour"
        harness.engine.end(job)
        until_state(plane, job, JobState.SUCCEEDED)
        balance = plane.query_ledger(lambda ledger, _, now: ledger.at(now).trial_balance())
        assert cost_of(plane, job) > 0 and balance.result(5) == 0


def test_the_ledger_continues_after_a_restart_and_passes_its_check(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        first, second = submit(plane, gpu_job(), gpu_job())
        until_state(plane, first, JobState.RUNNING)
        until_state(plane, second, JobState.RUNNING)
        harness.engine.end(first)
        until_state(plane, first, JobState.SUCCEEDED)
        before = cost_of(plane, first)
    with harness.plane() as plane:
        assert cost_of(plane, first) == before
        harness.engine.end(second)
        until_state(plane, second, JobState.SUCCEEDED)
    proof = prove(str(tmp_path), None)
    assert proof.book_faults == () and proof.micro_usd > 0


def test_a_snapshot_without_a_ledger_replays_the_log_once(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        harness.engine.end(job)
        until_state(plane, job, JobState.SUCCEEDED)
    store = open_store(tmp_path / "bursar.db")
    try:
        snapshot = store.snapshot()
        assert snapshot is not None
        plain = json.loads(snapshot.body)
        carried = plain.pop("ledger")
        assert carried["books"]["jobs"]
        lead = store.try_lead("editor")
        assert lead is not None
        store.keep_snapshot(Snapshot(sequence=snapshot.sequence, body=json.dumps(plain)), lead)
        lead.release()
        live = LiveState()
        live.catch_up(store)
        assert by_job(live.books.ledger.at(live.last_event_ms))[job] > 0
    finally:
        store.close()


def test_every_ledger_survives_a_snapshot_at_any_event() -> None:
    for sentence, (scene, until, _) in SCENARIOS.items():
        whole = books_of(scene)
        for cut in range(0, len(scene.log) + 1, 3):
            first = LiveLedger()
            for event in scene.log[:cut]:
                first.apply(event)
            second = LiveLedger.restore(from_text(LedgerSnapshot, to_text(first.to_snapshot())))
            for event in scene.log[cut:]:
                second.apply(event)
            assert list(ledger_differences(second, whole, ms(until))) == [], sentence


def books_of(scene: Scene) -> LiveLedger:
    found = LiveLedger()
    for event in scene.log:
        found.apply(event)
    return found


def test_differing_ledgers_are_reported() -> None:
    scene, until, _ = next(iter(SCENARIOS.values()))
    less = LiveLedger()
    for event in scene.log[:-1]:
        less.apply(event)
    assert list(ledger_differences(less, books_of(scene), ms(until) + DAY_MS)) != []


def test_the_meter_handles_every_event_type_of_the_log() -> None:
    known = set(Meter(lambda _entry: None)._apply)
    assert {kind.__name__ for kind in get_args(LoggedEvent)} == {one.__name__ for one in known}
