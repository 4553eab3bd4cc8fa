"""The path of a job through the live shell, and what survives a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from bursar.control.control_plane import OPERATOR
from bursar.control.requests.fleet_requests import DeclareFleet
from bursar.control.requests.job_requests import CancelJobs, SubmitJobs
from bursar.control.requests.submission import IdempotencyKey
from bursar.model.engine_report import TasksEnded
from bursar.model.errors import UserError
from bursar.model.event import FleetDeclared, JobCancelled, JobSubmitted
from bursar.model.jobs.attempt import Exit
from bursar.model.jobs.job import JobState
from tests.control.harness import (
    ControlPlaneHarness,
    gpu_job,
    row_of,
    small_fleet,
    submit,
    until,
    until_state,
)


def test_a_job_runs_and_its_end_is_stored(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        harness.engine.end(job)
        row = until_state(plane, job, JobState.SUCCEEDED)
    assert row.attempt == 1
    assert row.started_at_ms is not None and row.ended_at_ms is not None


def test_the_exit_of_a_failed_job_is_stored_and_it_is_retried(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job(retries=1))
        until_state(plane, job, JobState.RUNNING)
        harness.engine.end(job, code=3)
        until(lambda: row_of(plane, job).attempt == 2, "a second attempt")
        until_state(plane, job, JobState.RUNNING)
        harness.engine.end(job, code=None, signal=9)
        row = until_state(plane, job, JobState.FAILED)
        attempts = plane.reader.attempts(job)
    assert (row.exit_signal, row.failures) == (9, 2)
    assert [one.exit_code for one in attempts] == [3, None]


def test_a_running_job_is_recovered_and_not_started_twice(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        first, second = submit(plane, gpu_job(4), gpu_job(4))
        until_state(plane, first, JobState.RUNNING)
        until_state(plane, second, JobState.RUNNING)
    harness.engine.end(first)
    with harness.plane() as plane:
        until_state(plane, first, JobState.SUCCEEDED)
        assert row_of(plane, second).state is JobState.RUNNING
        harness.engine.end(second)
        until_state(plane, second, JobState.SUCCEEDED)
    assert len(harness.engine.started) == 2


def test_an_order_that_never_reached_the_engine_is_sent_again(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
    (ref,) = harness.engine.running
    harness.engine.running.clear()
    harness.engine.started.clear()
    with harness.plane() as plane:
        until(lambda: row_of(plane, job).attempt == 1, "still the first attempt")
        row = until_state(plane, job, JobState.FAILED)
    assert "was gone when the control plane restarted" in row.exit_detail
    assert ref.attempt == 1


def test_a_stale_report_changes_nothing_and_is_counted(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        old = TasksEnded(job_id=job, attempt=0, at_ms=0, exit=Exit(code=0))
        stranger = TasksEnded(job_id="j-unknown", attempt=1, at_ms=0, exit=Exit(code=0))
        harness.engine.report(old, stranger)
        until(lambda: plane.health().stale_reports == 2, "two stale reports")
        assert row_of(plane, job).state is JobState.RUNNING


def test_cancelling_stops_running_jobs_and_removes_waiting_ones(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        running, waiting = submit(plane, gpu_job(4), gpu_job(4))
        blocked = submit(plane, gpu_job(4))[0]
        until_state(plane, running, JobState.RUNNING)
        until_state(plane, waiting, JobState.RUNNING)
        cancelled = plane.send(CancelJobs(job_ids=[running, blocked])).result(5)
        assert cancelled[blocked] == JobState.CANCELLED
        until_state(plane, running, JobState.CANCELLED)
    assert [ref.job_id for ref in harness.engine.stopped] == [running]


def test_repeated_cancel_requests_cancel_a_job_once(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    harness.engine.ignores_stops = True
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        for _ in range(3):
            assert plane.send(CancelJobs(job_ids=[job, job])).result(5) == {
                job: JobState.CANCELLING
            }
        events = [one.event for one in plane.reader.events_of(job)]
        assert sum(isinstance(one, JobCancelled) for one in events) == 1


def test_the_same_idempotency_key_gets_the_same_response(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    key = IdempotencyKey(tenant="acme", key="nightly", request_sha256="1")
    with harness.plane() as plane:
        first = plane.send(SubmitJobs(caller=OPERATOR, submissions=[gpu_job()], key=key)).result(5)
    with harness.plane() as plane:
        again = plane.send(SubmitJobs(caller=OPERATOR, submissions=[gpu_job()], key=key)).result(5)
        other = IdempotencyKey(tenant="acme", key="nightly", request_sha256="2")
        with pytest.raises(UserError, match="different request"):
            plane.send(SubmitJobs(caller=OPERATOR, submissions=[gpu_job()], key=other)).result(5)
    assert again.job_ids == first.job_ids
    assert again.replayed and not first.replayed


def test_a_refused_job_writes_nothing_while_others_are_accepted(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        with pytest.raises(UserError, match="unknown"):
            submit(plane, gpu_job(), gpu_job(queue="unknown"))
        submit(plane, gpu_job())
        kinds = [type(one.event) for one in plane.reader.events()]
    assert kinds[:2] == [FleetDeclared, JobSubmitted]
    assert kinds.count(JobSubmitted) == 1


def test_jobs_of_removed_nodes_return_to_the_queue(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        first, second = submit(plane, gpu_job(4), gpu_job(4))
        until_state(plane, first, JobState.RUNNING)
        until_state(plane, second, JobState.RUNNING)
        plane.send(DeclareFleet(caller=OPERATOR, declared=small_fleet(1))).result(5)
        until(lambda: len(harness.engine.running) == 1, "one of them is stopped")
        states = {row_of(plane, job).state for job in (first, second)}
        assert states == {JobState.RUNNING, JobState.QUEUED}
        (left,) = [ref.job_id for ref in harness.engine.running]
        harness.engine.end(left)
        other = second if left == first else first
        until_state(plane, other, JobState.RUNNING)
        assert row_of(plane, other).attempt == 2


def test_a_queue_with_jobs_cannot_be_removed(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    without = small_fleet()
    tenants = tuple(t for t in without.tenants if t.name != "retraining")
    with harness.plane() as plane:
        submit(plane, gpu_job())
        changed = type(without)(fleet=without.fleet, tenants=tenants, policies=without.policies)
        with pytest.raises(UserError, match="retraining"):
            plane.send(DeclareFleet(caller=OPERATOR, declared=changed)).result(5)


def test_a_second_plane_follows_and_takes_over(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane("first") as first:
        (job,) = submit(first, gpu_job())
        with harness.plane("second") as second:
            assert not second.is_leader
            assert second.leader_address == "first"
            until(lambda: row_of(second, job).state is JobState.RUNNING, "it follows")
            first.close()
            until(lambda: second.is_leader, "the second leads")
            harness.engine.end(job)
            until_state(second, job, JobState.SUCCEEDED)
            (more,) = submit(second, gpu_job())
            until_state(second, more, JobState.RUNNING)
    assert harness.messages == ["this process is now the leader"]


def test_an_order_that_an_engine_refuses_is_retried(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    harness.engine.fails_to_start = 2
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)


def test_an_engine_that_keeps_refusing_fails_the_job(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    harness.engine.fails_to_start = 5
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.FAILED)
