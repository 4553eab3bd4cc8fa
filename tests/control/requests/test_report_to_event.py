"""Each report of an engine or a job becomes one event or none."""

from __future__ import annotations

import pytest

from bursar import sdk
from bursar.control.requests.report_to_event import ReportContext, event_for
from bursar.core.state.attempt_ends import MOST_UNPROMPTED
from bursar.model import event as ev
from bursar.model.engine_report import (
    ForeignReported,
    NoticeReported,
    Progressed,
    StopAcknowledged,
    TasksEnded,
)
from bursar.model.event import (
    AttemptResumed,
    CheckpointSaved,
    NodeLost,
    NodeRestored,
    NoticeKind,
    PreemptionCause,
)
from bursar.model.jobs.attempt import PREEMPTED_EXIT, Exit
from bursar.model.jobs.job import CheckpointPolicy
from tests.support import SchedulerHarness, fleet_of, job, pool, state_of

FLEET = fleet_of(pool("spot", nodes=2, gpus=4))
ASKS_AGAIN = Exit(code=PREEMPTED_EXIT)


def running() -> SchedulerHarness:
    harness = SchedulerHarness(state_of(FLEET), now_ms=1_000)
    harness.submit(job("a", gpus=4))
    harness.cycle()
    return harness.start_all()


def notice(harness: SchedulerHarness, kind: NoticeKind = NoticeKind.TERMINATE) -> NoticeReported:
    placement = harness.job("a").placement
    assert placement is not None
    return NoticeReported(node=placement.tasks[0].node, source="aws", kind=kind, ends_at_ms=121_000)


def events_for(
    harness: SchedulerHarness, exit: Exit, saved: dict[str, int | None] | None = None
) -> ev.Event | None:
    report = TasksEnded(job_id="a", attempt=1, at_ms=2_000, exit=exit)
    return event_for(report, harness.state, 3_000, ReportContext(saved=saved or {}))


def cause_of(event: ev.Event | None) -> PreemptionCause:
    assert isinstance(event, ev.AttemptPreempted), event
    return event.cause


def test_the_preempted_exit_code_is_the_one_that_jobs_use() -> None:
    assert PREEMPTED_EXIT == sdk.PREEMPTED_EXIT


def test_a_checkpoint_event_has_what_the_job_reported() -> None:
    report = CheckpointSaved(job_id="a", attempt=1, at_ms=2_000, step=40, save_ms=700, size_bytes=9)
    assert event_for(report, running().state, 3_000) == ev.CheckpointSaved(
        at_ms=2_000, job_id="a", attempt=1, step=40, save_ms=700, size_bytes=9
    )


def test_a_resumed_step_is_an_event_and_progress_is_not() -> None:
    state = running().state
    resumed = AttemptResumed(job_id="a", attempt=1, at_ms=2_000, step=40)
    assert event_for(resumed, state, 3_000) == ev.AttemptResumed(
        at_ms=2_000, job_id="a", attempt=1, step=40
    )
    assert event_for(Progressed(job_id="a", attempt=1, at_ms=2, step=3), state, 3_000) is None
    old = AttemptResumed(job_id="a", attempt=0, at_ms=2_000, step=40)
    assert event_for(old, state, 3_000) is None


def test_reports_from_before_a_restart_count_once() -> None:
    """After a restart engines report again: the resume, and the newest checkpoint after it."""
    harness = running()
    events = (
        AttemptResumed(job_id="a", attempt=1, at_ms=2_000, step=40),
        CheckpointSaved(job_id="a", attempt=1, at_ms=9_000, step=50),
    )
    for report in events:
        event = event_for(report, harness.state, 10_000)
        assert event is not None
        harness.apply(event)
    known = harness.job("a").done_ms, harness.job("a").saved_at_ms
    assert [event_for(report, harness.state, 11_000) for report in events] == [None, None]
    assert (harness.job("a").done_ms, harness.job("a").saved_at_ms) == known
    back = AttemptResumed(job_id="a", attempt=1, at_ms=10_000, step=40)
    assert event_for(back, harness.state, 11_000) is not None, "it went back to an older one"
    later = CheckpointSaved(job_id="a", attempt=1, at_ms=12_000, step=50)
    assert event_for(later, harness.state, 13_000) is not None, "the same step, saved anew"


def test_a_resume_faster_than_declared_is_accepted() -> None:
    harness = SchedulerHarness(state_of(FLEET), now_ms=1_000)
    harness.submit(
        job("a", gpus=4, checkpoint=CheckpointPolicy(interval_ms=1_000, restart_ms=60_000))
    )
    harness.cycle()
    harness.start_all()
    resumed = AttemptResumed(job_id="a", attempt=1, at_ms=3_000, step=4)
    assert event_for(resumed, harness.state, 4_000) is not None


def test_a_notice_is_an_event_once_and_again_only_with_new_facts() -> None:
    harness = running()
    first = notice(harness)
    event = event_for(first, harness.state, 3_000)
    assert isinstance(event, ev.SpotNotice)
    assert (event.at_ms, event.source, event.ends_at_ms) == (3_000, "aws", 121_000)
    harness.apply(event)
    assert event_for(first, harness.state, 4_000) is None
    assert event_for(notice(harness, NoticeKind.REBALANCE), harness.state, 4_000) is None
    elsewhere = NoticeReported(node="nowhere", source="aws", kind=NoticeKind.TERMINATE)
    assert event_for(elsewhere, harness.state, 4_000) is None


@pytest.mark.parametrize("exit", [ASKS_AGAIN, Exit(signal=9), Exit(signal=15)])
def test_an_end_on_an_interrupted_node_is_no_failure(exit: Exit) -> None:
    harness = running()
    event = event_for(notice(harness), harness.state, 2_000)
    assert event is not None
    harness.apply(event)
    assert cause_of(events_for(harness, exit)) is PreemptionCause.NOTICE
    assert isinstance(events_for(harness, Exit(code=1)), ev.AttemptFailed)
    harness.cycle()
    assert cause_of(events_for(harness, Exit(code=1))) is PreemptionCause.NOTICE


def test_an_attempt_that_we_stopped_was_preempted() -> None:
    harness = running()
    harness.apply(ev.AttemptStopping(at_ms=2_000, job_id="a", attempt=1, on_behalf_of="b"))
    assert cause_of(events_for(harness, ASKS_AGAIN)) is PreemptionCause.ORDER


def test_a_job_may_request_a_requeue_without_a_notice_only_so_often() -> None:
    harness = running()
    record = harness.job("a")
    assert cause_of(events_for(harness, ASKS_AGAIN)) is PreemptionCause.UNPROMPTED
    record.unprompted = MOST_UNPROMPTED
    event = events_for(harness, ASKS_AGAIN)
    assert isinstance(event, ev.AttemptFailed)
    assert event.exit is not None and "saved nothing newer" in event.exit.detail
    record.saved_step = 40
    assert isinstance(events_for(harness, ASKS_AGAIN, {"a": 40}), ev.AttemptFailed)
    assert cause_of(events_for(harness, ASKS_AGAIN, {"a": 41})) is PreemptionCause.UNPROMPTED


def test_a_stop_by_the_cluster_is_a_notice_for_that_job_alone() -> None:
    harness = running()
    report = StopAcknowledged(job_id="a", attempt=1, at_ms=2_000, source="slurm", ends_at_ms=32_000)
    event = event_for(report, harness.state, 3_000)
    assert isinstance(event, ev.SpotNotice)
    assert (event.job_id, event.source, event.ends_at_ms) == ("a", "slurm", 32_000)
    harness.apply(event)
    assert not harness.state.notices, "the node stays"
    assert event_for(report, harness.state, 3_000) is None
    assert cause_of(events_for(harness, Exit(signal=9))) is PreemptionCause.NOTICE


def test_a_stop_reported_together_with_the_end_counts_too() -> None:
    harness = running()
    end = TasksEnded(job_id="a", attempt=1, at_ms=2_000, exit=Exit(signal=9))
    assert isinstance(event_for(end, harness.state, 3_000), ev.AttemptFailed)
    context = ReportContext(warned={"a"})
    assert cause_of(event_for(end, harness.state, 3_000, context)) is PreemptionCause.NOTICE


def test_a_stop_that_we_ordered_is_no_event() -> None:
    harness = running()
    harness.apply(ev.AttemptStopping(at_ms=2_000, job_id="a", attempt=1))
    report = StopAcknowledged(job_id="a", attempt=1, at_ms=2_000, source="signal")
    assert event_for(report, harness.state, 3_000) is None


def test_a_node_returns_as_it_was_declared() -> None:
    harness = running()
    context = ReportContext(fleet=FLEET)
    node = FLEET.nodes[1]
    back = NodeRestored(node=node.id, at_ms=0)
    assert event_for(back, harness.state, 3_000, context) is None
    gone = event_for(NodeLost(node=node.id, at_ms=0), harness.state, 3_000, context)
    assert gone == ev.NodeLost(at_ms=3_000, node=node.id)
    harness.apply(gone)
    assert event_for(back, harness.state, 4_000, context) == ev.NodeAdded(at_ms=4_000, node=node)
    assert event_for(back, harness.state, 4_000) is None
    assert event_for(NodeRestored(node="x", at_ms=0), harness.state, 4_000, context) is None


def test_reports_about_a_node_in_the_same_batch_count() -> None:
    state, node = running().state, FLEET.nodes[1]
    context = ReportContext(fleet=FLEET)
    gone, back = NodeLost(node=node.id, at_ms=0), NodeRestored(node=node.id, at_ms=0)
    events = []
    for report in (gone, gone, back, back, gone, back):
        event = event_for(report, state, 3_000, context)
        if event is not None:
            context.add(event)
        events.append(event)
    lost, added = ev.NodeLost(at_ms=3_000, node=node.id), ev.NodeAdded(at_ms=3_000, node=node)
    assert events == [lost, None, added, None, lost, added]


def test_foreign_usage_may_rise_and_fall_in_one_batch() -> None:
    state, context = running().state, ReportContext(fleet=FLEET)
    events = []
    for cpu_milli in (0, 4_000, 4_000, 0):
        seen = ForeignReported(node=FLEET.nodes[1].id, gpus=(), cpu_milli=cpu_milli, memory_mib=0)
        event = event_for(seen, state, 3_000, context)
        if event is not None:
            assert isinstance(event, ev.ForeignUsageSeen)
            context.add(event)
        events.append(None if event is None else event.cpu_milli)
    assert events == [None, 4_000, None, 0]


def test_a_node_whose_interruption_is_withdrawn_takes_jobs_again() -> None:
    harness = running()
    report = notice(harness, NoticeKind.REBALANCE)
    event = event_for(report, harness.state, 2_000)
    assert event is not None
    harness.apply(event)
    back = NodeRestored(node=report.node, at_ms=0)
    assert event_for(back, harness.state, 3_000) == ev.NodeRestored(at_ms=3_000, node=report.node)
