"""Interruption notices in the live shell: polled from providers, acted on in time, survived."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bursar.config.job.job_file import JobDocument
from bursar.control import control_plane
from bursar.control.control_plane import OPERATOR
from bursar.control.requests.fleet_requests import InterruptionTimes, InterruptJob
from bursar.model.engine_report import NoticeReported
from bursar.model.errors import EngineFault, UserError
from bursar.model.event import (
    AttemptPreempted,
    AttemptResumed,
    CheckpointSaved,
    NodeLost,
    NodeRestored,
    NoticeKind,
    PreemptionCause,
    SpotNotice,
)
from bursar.model.jobs.job import JobState
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import AttemptRef
from tests.control.harness import ControlPlaneHarness, gpu_job, row_of, submit, until, until_state
from tests.support.memory_engine import MemoryEngine

HALF_A_MINUTE = InterruptionTimes(notice_ms=30_000, absence_ms=1_000)


@dataclass
class Provider:
    """A source that reports the notices a test sets."""

    notices: list[NoticeReported] = field(default_factory=list)
    fault: str = ""
    polls: int = 0

    def poll(self) -> Sequence[NoticeReported]:
        self.polls += 1
        if self.fault:
            raise EngineFault(self.fault, retry_after_seconds=1)
        return list(self.notices)


class RecordingEngine(MemoryEngine):
    """Records the grace periods of its stop orders and the interrupted nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.graces: list[int] = []
        self.taken: list[tuple[str, int, int]] = []

    def stop(self, ref: AttemptRef, grace_seconds: int) -> None:
        self.graces.append(grace_seconds)
        super().stop(ref, grace_seconds)

    def interrupt(self, node: str, notice_ms: int, absence_ms: int) -> None:
        self.taken.append((node, notice_ms, absence_ms))


def job_with_grace(seconds: int) -> JobDocument:
    return replace(gpu_job(4), recipe=RunSpec(run="true", grace_seconds=seconds))


def notice(node: str, seconds: int = 30) -> NoticeReported:
    ends_at_ms = time.time_ns() // 1_000_000 + seconds * 1_000
    return NoticeReported(node=node, source="aws", kind=NoticeKind.TERMINATE, ends_at_ms=ends_at_ms)


def test_a_job_leaves_an_interrupted_node_and_runs_elsewhere(tmp_path: Path) -> None:
    engine = RecordingEngine()
    harness = ControlPlaneHarness(tmp_path, engine=engine)
    with harness.plane() as plane:
        (job,) = submit(plane, job_with_grace(600))
        row = until_state(plane, job, JobState.RUNNING)
        assert row.placement is not None
        first = row.placement.tasks[0].node
        engine.report(notice(first))
        until(lambda: row_of(plane, job).attempt == 2, "a second attempt")
        row = until_state(plane, job, JobState.RUNNING)
        assert row.placement is not None and row.placement.tasks[0].node != first
        assert (row.failures, row.preemptions) == (0, 0)
        ends = [one.event for one in plane.reader.events_of(job)]
        (end,) = [one for one in ends if isinstance(one, AttemptPreempted)]
        assert end.cause is PreemptionCause.NOTICE
    (grace,) = engine.graces
    assert 20 <= grace <= 28, "within the notice, not as long as its recipe allows"


def test_a_shorter_grace_period_of_the_job_is_used(tmp_path: Path) -> None:
    engine = RecordingEngine()
    with ControlPlaneHarness(tmp_path, engine=engine).plane() as plane:
        (job,) = submit(plane, job_with_grace(7))
        row = until_state(plane, job, JobState.RUNNING)
        assert row.placement is not None
        engine.report(notice(row.placement.tasks[0].node))
        until(lambda: row_of(plane, job).attempt == 2, "a second attempt")
    assert engine.graces == [7]


def test_a_job_is_recovered_when_it_reports_its_resumed_step(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job(4))
        row = until_state(plane, job, JobState.RUNNING)
        assert row.is_recovered is None, "there is nothing to recover from yet"
        assert row.placement is not None
        harness.engine.report(NodeLost(node=row.placement.tasks[0].node, at_ms=0))
        until(lambda: row_of(plane, job).attempt == 2, "a second attempt")
        assert until_state(plane, job, JobState.RUNNING).is_recovered is False
        harness.engine.report(AttemptResumed(job_id=job, attempt=2, at_ms=0, step=40))
        until(lambda: bool(row_of(plane, job).is_recovered), "it is recovered")
        assert row_of(plane, job).resumed_step == 40
        saved = CheckpointSaved(job_id=job, attempt=2, at_ms=1 << 60, step=50)
        harness.engine.report(saved)
        until(lambda: row_of(plane, job).saved_step == 50, "the step is stored")
        harness.engine.end(job)
        assert until_state(plane, job, JobState.SUCCEEDED).is_recovered is None
        assert plane.reader.attempts(job)[1].resumed_step == 40


def test_a_lost_node_returns(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        first, second = submit(plane, gpu_job(4), gpu_job(4))
        until_state(plane, first, JobState.RUNNING)
        row = until_state(plane, second, JobState.RUNNING)
        assert row.placement is not None
        node = row.placement.tasks[0].node
        harness.engine.report(NodeLost(node=node, at_ms=0))
        until_state(plane, second, JobState.QUEUED)
        harness.engine.report(NodeRestored(node=node, at_ms=0))
        row = until_state(plane, second, JobState.RUNNING)
        assert row.placement is not None and row.placement.tasks[0].node == node


def test_a_node_lost_and_added_in_one_report_is_available(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        first, second = submit(plane, gpu_job(4), gpu_job(4))
        until_state(plane, first, JobState.RUNNING)
        row = until_state(plane, second, JobState.RUNNING)
        assert row.placement is not None
        node = row.placement.tasks[0].node
        gone, back = NodeLost(node=node, at_ms=0), NodeRestored(node=node, at_ms=0)
        harness.engine.report(gone, back, gone, back)
        until(lambda: row_of(plane, second).attempt == 2, "a second attempt")
        row = until_state(plane, second, JobState.RUNNING)
        assert row.placement is not None and row.placement.tasks[0].node == node


def test_providers_are_polled_again_after_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "NOTICE_POLL_SECONDS", 0.05)
    provider = Provider(fault="no metadata today")
    harness = ControlPlaneHarness(tmp_path, notices=(provider,))
    with harness.plane() as plane:
        until(lambda: provider.polls >= 3, "it is asked again")
        node = harness.fleet.fleet.nodes[0].id
        provider.notices, provider.fault = [notice(node)], ""
        until(
            lambda: plane.query_state(lambda state, _: node in state.notices).result(9),
            "it is heard",
        )
        asked = provider.polls
        until(lambda: provider.polls >= asked + 3, "it is asked again")
        log = [one.event for one in plane.reader.events()]
    assert sum(isinstance(one, SpotNotice) for one in log) == 1, "and recorded once"


def test_a_notice_survives_a_restart_of_the_control_plane(tmp_path: Path) -> None:
    engine = RecordingEngine()
    engine.ignores_stops = True
    harness = ControlPlaneHarness(tmp_path, engine=engine)
    with harness.plane() as plane:
        (job,) = submit(plane, job_with_grace(600))
        row = until_state(plane, job, JobState.RUNNING)
        assert row.placement is not None
        node = row.placement.tasks[0].node
        engine.report(notice(node, seconds=20))
        until_state(plane, job, JobState.STOPPING)
    with harness.plane() as plane:
        until(lambda: len(engine.graces) >= 2, "the stop is repeated")
        assert plane.query_state(lambda state, _: node in state.notices).result(9)
    assert all(grace <= 18 for grace in engine.graces)


def test_an_operator_interrupts_a_node(tmp_path: Path) -> None:
    engine = RecordingEngine()
    with ControlPlaneHarness(tmp_path, engine=engine).plane() as plane:
        (job,) = submit(plane, gpu_job(4))
        row = until_state(plane, job, JobState.RUNNING)
        assert row.placement is not None
        done = plane.send(InterruptJob(caller=OPERATOR, job_id=job, terms=HALF_A_MINUTE)).result(9)
        assert done.node == row.placement.tasks[0].node
        assert done.back_at_ms == done.lost_at_ms + 1_000
        assert engine.taken == [(done.node, 30_000, 1_000)]
        assert plane.reader.audit(1)[0][1].action == "JobInterrupted"


def test_a_job_that_cannot_be_interrupted_gets_a_reason(tmp_path: Path) -> None:
    harness = ControlPlaneHarness(tmp_path)
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job(4))
        until_state(plane, job, JobState.RUNNING)
        with pytest.raises(UserError, match="Bursar cannot take away"):
            plane.send(InterruptJob(caller=OPERATOR, job_id=job, terms=HALF_A_MINUTE)).result(9)
        harness.engine.end(job)
        until_state(plane, job, JobState.SUCCEEDED)
        with pytest.raises(UserError, match="nothing to interrupt"):
            plane.send(InterruptJob(caller=OPERATOR, job_id=job, terms=HALF_A_MINUTE)).result(9)
