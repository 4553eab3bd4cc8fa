"""After store faults, lost responses and clock changes nothing is lost or done twice."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bursar.catalog.gpu_models import GPU_MODELS
from bursar.control import writer
from bursar.control.control_plane import OPERATOR, ControlPlane, PlaneOptions
from bursar.control.monotonic_clock import MonotonicClock
from bursar.control.requests.job_requests import SubmitJobs
from bursar.control.requests.submission import IdempotencyKey, NotLeader
from bursar.model.engine_report import EngineReport
from bursar.model.errors import EngineFault
from bursar.model.event import AttemptSucceeded
from bursar.model.fleet.fleet import EngineKind
from bursar.model.jobs.job import JobState
from bursar.model.units import HOUR_MS
from bursar.ports import Batch, LeaderLease, LeadershipLost, StartOrder
from bursar.store import open_store
from tests.control.harness import (
    ControlPlaneHarness,
    gpu_job,
    row_of,
    small_fleet,
    submit,
    until,
    until_state,
)
from tests.support.memory_engine import MemoryEngine


class FaultyStore:
    """A real store whose commits fail, or lose their response, when a test wants it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.refuses = False
        self.answers_get_lost = False
        self.lead_is_lost = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, batch: Batch, lead: LeaderLease) -> int:
        if self.refuses:
            raise EngineFault("the disk is full", retry_after_seconds=0.05)
        if self.lead_is_lost:
            raise LeadershipLost
        last: int = self._inner.append(batch, lead)
        if self.answers_get_lost:
            raise EngineFault("the connection was lost", retry_after_seconds=0.05)
        return last


@contextmanager
def plane_with_faulty_store(
    folder: Path, engine: MemoryEngine
) -> Iterator[tuple[ControlPlane, FaultyStore]]:
    store = FaultyStore(open_store(folder / "bursar.db"))
    options = PlaneOptions(
        address="here",
        known_models=frozenset(model.name for model in GPU_MODELS),
        initial_fleet=small_fleet(),
    )
    plane = ControlPlane(store, {EngineKind.LOCAL: engine}, options)  # type: ignore[arg-type]
    plane.start()
    try:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        yield plane, store
    finally:
        plane.close()
        store.close()


def test_a_full_disk_refuses_requests_until_there_is_space(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with plane_with_faulty_store(tmp_path, engine) as (plane, store):
        (before,) = submit(plane, gpu_job())
        until_state(plane, before, JobState.RUNNING)
        store.refuses = True
        engine.end(before)
        with pytest.raises(EngineFault, match="disk is full"):
            submit(plane, gpu_job())
        until(lambda: plane.health().store_fault != "", "the fault is shown")
        store.refuses = False
        (after,) = submit(plane, gpu_job())
        until_state(plane, after, JobState.RUNNING)
        until_state(plane, before, JobState.SUCCEEDED)


def test_a_commit_whose_response_was_lost_counts_once(tmp_path: Path) -> None:
    engine = MemoryEngine()
    key = IdempotencyKey(tenant="acme", key="k", request_sha256="1")
    with plane_with_faulty_store(tmp_path, engine) as (plane, store):
        store.answers_get_lost = True
        with pytest.raises(EngineFault, match="connection was lost"):
            plane.send(SubmitJobs(caller=OPERATOR, submissions=[gpu_job()], key=key)).result(5)
        store.answers_get_lost = False
        again = plane.send(SubmitJobs(caller=OPERATOR, submissions=[gpu_job()], key=key)).result(5)
        assert again.replayed
        until_state(plane, again.job_ids[0], JobState.RUNNING)
    assert len(engine.started) == 1


def test_an_order_whose_commit_was_not_confirmed_is_carried_out_once(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with plane_with_faulty_store(tmp_path, engine) as (plane, store):
        (blocker,) = submit(plane, gpu_job(4))
        until_state(plane, blocker, JobState.RUNNING)
        (other,) = submit(plane, gpu_job(4))
        until_state(plane, other, JobState.RUNNING)
        (job,) = submit(plane, gpu_job(4))
        store.answers_get_lost = True
        engine.end(blocker)
        until(lambda: row_of(plane, blocker).state is JobState.SUCCEEDED, "the end is in the log")
        store.answers_get_lost = False
        until_state(plane, job, JobState.RUNNING)
        assert row_of(plane, job).attempt == 1
    assert len(engine.started) == 3


def test_a_leader_that_lost_the_lease_steps_down_and_reports_it(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with plane_with_faulty_store(tmp_path, engine) as (plane, store):
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        store.lead_is_lost = True
        with pytest.raises((LeadershipLost, NotLeader)):
            submit(plane, gpu_job())
        store.lead_is_lost = False
        until(lambda: plane.is_leader, "it leads again once it may")
        engine.end(job)
        until_state(plane, job, JobState.SUCCEEDED)
    assert len(engine.started) == 1


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS], ids=["forward", "back"])
def test_a_step_of_the_wall_clock_does_not_end_a_job(tmp_path: Path, step_ms: int) -> None:
    """The wall clock steps by an hour under a running job of at most ten minutes."""
    wall = {"offset": 0}
    real = MonotonicClock()

    def wall_ms() -> int:
        return real.now_ms() + wall["offset"]

    harness = ControlPlaneHarness(tmp_path, clock=MonotonicClock(wall_ms=wall_ms))
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job(max_run_ms=10 * 60_000))
        until_state(plane, job, JobState.RUNNING)
        wall["offset"] = step_ms
        (other,) = submit(plane, gpu_job())
        until_state(plane, other, JobState.RUNNING)
        assert row_of(plane, job).state is JobState.RUNNING
    assert harness.engine.stopped == []


def test_time_continues_from_the_log_after_the_clock_was_set_back() -> None:
    clock = MonotonicClock(not_before_ms=5_000, wall_ms=lambda: 1_000, monotonic_ms=lambda: 70)
    assert clock.now_ms() == 5_000


def test_a_run_time_limit_survives_a_restart(tmp_path: Path) -> None:
    """The second control plane starts from a snapshot and gets no report: only its timer can act."""
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job(max_run_ms=2_000))
        until_state(plane, job, JobState.RUNNING)
    with harness.plane() as plane:
        assert plane.reader.snapshot() is not None
        row = until_state(plane, job, JobState.FAILED)
    assert row.exit_detail == "reached its maximum run time (max_hours) of 2 s"


def test_a_job_over_its_run_time_limit_is_stopped_and_fails(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job(max_run_ms=300))
        row = until_state(plane, job, JobState.FAILED)
    assert row.exit_signal == 15
    assert [ref.job_id for ref in harness.engine.stopped] == [job]


# -- an engine in fault ---------------------------------------------------------------------------


STALE = OSError(116, "Stale file handle")
OUR_FAULT = KeyError("NodeName")


class FaultyEngine(MemoryEngine):
    """Refuses its first orders and its first report calls."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(ends_at_once=True)
        self.fault = fault
        self.bad_starts = self.bad_reports = 1
        self.stays_bad = False

    def start(self, order: StartOrder) -> None:
        if self.bad_starts:
            self.bad_starts -= 1
            raise self.fault
        super().start(order)

    def reports(self, timeout_seconds: float) -> Sequence[EngineReport]:
        if self.bad_reports and self.started:
            self.bad_reports -= not self.stays_bad
            raise self.fault
        return super().reports(timeout_seconds)


@pytest.mark.parametrize("fault", [STALE, OUR_FAULT], ids=["its disk", "a fault of ours"])
def test_temporary_engine_faults_only_delay_jobs(tmp_path: Path, fault: Exception) -> None:
    harness = ControlPlaneHarness(tmp_path, engine=FaultyEngine(fault))
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.SUCCEEDED)
        until(lambda: not plane.health().engine_faults, "the fault is over")
    assert len(harness.engine.started) == 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (STALE, "the engine's files: [Errno 116] Stale file handle"),
        (OUR_FAULT, "KeyError: 'NodeName'"),
    ],
    ids=["its disk", "a fault of ours"],
)
def test_health_reports_an_engine_fault_while_it_lasts(
    tmp_path: Path, fault: Exception, message: str
) -> None:
    engine = FaultyEngine(fault)
    engine.stays_bad = True
    harness = ControlPlaneHarness(tmp_path, engine=engine)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        expected = {"local": f"its reports cannot be read: {message}"}
        until(lambda: plane.health().engine_faults == expected, "health reports it")
        engine.stays_bad = False
        until_state(plane, job, JobState.SUCCEEDED)
        until(lambda: not plane.health().engine_faults, "the fault is over")


# -- together --------------------------------------------------------------------------------------


def test_reports_between_two_cycles_are_committed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        jobs = submit(plane, *(gpu_job() for _ in range(8)))
        for job in jobs:
            until_state(plane, job, JobState.RUNNING)
        monkeypatch.setattr(writer, "CYCLE_GAP_SECONDS", 1.0)
        sizes: list[int] = []
        append = plane._writer.store.append

        def counted(batch: Batch, lead: LeaderLease) -> int:
            sizes.append(sum(isinstance(one, AttemptSucceeded) for one in batch.events))
            return append(batch, lead)

        monkeypatch.setattr(plane._writer.store, "append", counted)
        for job in jobs:
            harness.engine.end(job)
            time.sleep(0.02)
        for job in jobs:
            until_state(plane, job, JobState.SUCCEEDED)
    batches = [size for size in sizes if size]
    assert sum(batches) == 8 and len(batches) <= 2
