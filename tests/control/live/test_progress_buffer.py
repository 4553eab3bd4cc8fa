"""Progress of jobs is stored without events, and every checkpoint counts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bursar.control.control_plane import ControlPlane
from bursar.control.live.progress_buffer import MAX_WAIT_SECONDS, ProgressBuffer
from bursar.model import event as ev
from bursar.model.engine_report import EngineReport, ForeignReported, NoticeReported, Progressed
from bursar.model.event import CheckpointSaved
from bursar.model.jobs.job import JobState
from bursar.ports import JobProgress
from tests.control.harness import ControlPlaneHarness, gpu_job, row_of, submit, until, until_state


@pytest.fixture
def harness(tmp_path: Path) -> ControlPlaneHarness:
    return ControlPlaneHarness(tmp_path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def progress_report(
    job_id: str, step: int, attempt: int = 1, total: int | None = 1_000
) -> Progressed:
    return Progressed(job_id=job_id, attempt=attempt, at_ms=now_ms(), step=step, total=total)


def progress_of(plane: ControlPlane, job_id: str) -> JobProgress | None:
    return row_of(plane, job_id).progress


def step_of(plane: ControlPlane, job_id: str) -> int | None:
    progress = progress_of(plane, job_id)
    return None if progress is None else progress.step


def one_job(plane: ControlPlane) -> str:
    (job_id,) = submit(plane, gpu_job())
    until_state(plane, job_id, JobState.RUNNING)
    return job_id


def test_the_newest_progress_is_stored_without_an_event_and_survives_a_restart(
    harness: ControlPlaneHarness,
) -> None:
    with harness.plane() as plane:
        job_id = one_job(plane)
        assert progress_of(plane, job_id) is None
        events = plane.reader.last_sequence()
        harness.engine.report(progress_report(job_id, 100), progress_report(job_id, 120))
        until(lambda: step_of(plane, job_id) == 120, "its progress is shown")
        assert plane.reader.last_sequence() == events
    with harness.plane() as plane:
        harness.engine.report(progress_report(job_id, 300))
        until(lambda: step_of(plane, job_id) == 300, "it is shown after a restart")
        progress = progress_of(plane, job_id)
        assert progress is not None
        assert (progress.since_step, progress.total, progress.permille) == (120, 1_000, 300)


def test_the_last_progress_is_written_with_the_end(harness: ControlPlaneHarness) -> None:
    with harness.plane() as plane:
        job_id = one_job(plane)
        harness.engine.report(progress_report(job_id, 990))
        harness.engine.end(job_id)
        until_state(plane, job_id, JobState.SUCCEEDED)
        assert step_of(plane, job_id) == 990


def test_progress_of_an_ended_attempt_is_ignored(harness: ControlPlaneHarness) -> None:
    with harness.plane() as plane:
        job_id = one_job(plane)
        harness.engine.report(
            progress_report(job_id, 7, attempt=0),
            progress_report(job_id, 5),
            progress_report("j-unknown", 9),
        )
        until(lambda: step_of(plane, job_id) == 5, "the live attempt is events_of")
        until(lambda: plane.health().stale_reports == 2, "the others are counted")


def test_many_progress_reports_are_one_row_and_wait_for_the_next_commit() -> None:
    book = ProgressBuffer()
    book.add({}, 0.0)
    assert not book.is_due(MAX_WAIT_SECONDS + 1)
    first, second = progress_report("b", 1), progress_report("a", 2)
    book.add({"b": first, "a": second}, 10.0)
    assert book.unwritten() == (second, first)
    assert not book.is_due(10.0 + MAX_WAIT_SECONDS / 2)
    assert book.is_due(10.0 + MAX_WAIT_SECONDS)
    newer = progress_report("b", 3)
    rows = book.unwritten()
    book.add({"b": newer}, 11.0)
    book.written(rows)
    assert book.unwritten() == (newer,)
    book.written([newer])
    assert book.unwritten() == () and not book.is_due(1e9)


def events_of(
    harness: ControlPlaneHarness, plane: ControlPlane, *reports: EngineReport
) -> list[ev.LoggedEvent]:
    """The events of reports that an engine sends in one batch."""
    until(lambda: plane.declaration() is not None, "there is a fleet")
    before = plane.reader.last_sequence()
    harness.engine.report(*reports)
    until(lambda: plane.reader.last_sequence() > before, "they were events_of")
    return [one.event for one in plane.reader.events(after=before)]


def saved(job_id: str, step: int) -> CheckpointSaved:
    return CheckpointSaved(job_id=job_id, attempt=1, at_ms=now_ms(), step=step, save_ms=10)


def test_every_checkpoint_of_one_batch_is_stored_and_a_repeated_one_once(
    harness: ControlPlaneHarness,
) -> None:
    with harness.plane() as plane:
        job_id = one_job(plane)
        first, second = saved(job_id, 10), saved(job_id, 20)
        found = events_of(harness, plane, first, second, second)
        steps = [one.step for one in found if isinstance(one, ev.CheckpointSaved)]
        assert steps == [10, 20]
        assert row_of(plane, job_id).saved_step == 20


def test_a_second_notice_in_one_batch_with_new_facts_is_recorded(
    harness: ControlPlaneHarness,
) -> None:
    with harness.plane() as plane:
        node = "t4-0001"
        may = NoticeReported(node=node, source="aws", kind=ev.NoticeKind.REBALANCE)
        will = NoticeReported(node=node, source="aws", kind=ev.NoticeKind.TERMINATE)
        found = events_of(harness, plane, may, will, will)
        assert [one.kind for one in found if isinstance(one, ev.SpotNotice)] == [
            may.kind,
            will.kind,
        ]
        assert (
            plane.query_state(lambda state, _now: state.notices[node].kind).result(20) is will.kind
        )


def test_foreign_usage_is_the_last_one_reported(harness: ControlPlaneHarness) -> None:
    with harness.plane() as plane:
        node = "t4-0001"
        events_of(
            harness, plane, *(ForeignReported(node=node, gpus=one) for one in ((0,), (0, 1), (0,)))
        )
        foreign = plane.query_state(lambda state, _now: state.node(node).foreign).result(20)
        assert foreign is not None and foreign.gpus == (0,)
