"""Spot notices: which attempts stop and when, which nodes close, and what counts as a preemption."""

from __future__ import annotations

import pytest

from bursar.core.check import check
from bursar.core.explain.explain import explain
from bursar.core.state.attempt_ends import MOST_UNPROMPTED
from bursar.core.state.notices import time_left_ms
from bursar.core.state.snapshot import from_snapshot, to_snapshot
from bursar.model import event as ev
from bursar.model.decision import EvacuateJob, StartJob
from bursar.model.event import NoticeKind, PreemptionCause
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobState
from bursar.model.tenants.policy import Policies
from bursar.model.units import MINUTE_MS, SECOND_MS, write_duration
from tests.support import SchedulerHarness, fleet_of, job, pool, state_of
from tests.support.state_audit import state_faults

FLEET = fleet_of(pool("spot", nodes=3, gpus=4, market=Market.SPOT))


def harness() -> SchedulerHarness:
    return SchedulerHarness(state_of(FLEET), now_ms=MINUTE_MS)


def notice(
    harness: SchedulerHarness, node: str, kind: NoticeKind = NoticeKind.TERMINATE
) -> ev.SpotNotice:
    ends = harness.now_ms + 2 * MINUTE_MS if kind is NoticeKind.TERMINATE else None
    return ev.SpotNotice(at_ms=harness.now_ms, node=node, source="test", kind=kind, ends_at_ms=ends)


def running(harness: SchedulerHarness, *names: str, tasks: int = 1) -> None:
    for name in names:
        harness.submit(job(name, gpus=4, tasks=tasks, markets=(Market.SPOT,)))
    harness.cycle()
    harness.start_all()


def node_of(harness: SchedulerHarness, job_id: str) -> str:
    placement = harness.job(job_id).placement
    assert placement is not None
    return placement.tasks[0].node


def test_a_job_on_a_reclaimed_node_stops_in_time_and_continues_elsewhere() -> None:
    world = harness()
    running(world, "a", "b")
    doomed = node_of(world, "a")
    world.apply(notice(world, doomed))
    world.cycle()
    (order,) = world.decided(EvacuateJob)
    assert (order.job_id, order.node, order.attempt) == ("a", doomed, 1)
    assert 0 < order.grace_ms < 2 * MINUTE_MS
    assert world.job("a").state is JobState.STOPPING
    stopping = world.log[-1]
    assert isinstance(stopping, ev.AttemptStopping) and stopping.why == "spot notice"
    world.cycle()
    assert not world.decided(EvacuateJob), "it is ordered once"
    end = ev.AttemptPreempted(
        at_ms=world.now_ms, job_id="a", attempt=1, cause=PreemptionCause.NOTICE
    )
    world.apply(end).cycle()
    (start,) = world.decided(StartJob)
    assert start.placement.tasks[0].node not in (doomed, node_of(world, "b"))
    assert world.job("a").preemptions == 0, "what a provider does is not held against the job"


def test_a_gang_stops_when_one_of_its_nodes_is_reclaimed() -> None:
    world = harness()
    running(world, "gang", tasks=3)
    world.apply(notice(world, "spot-0002")).cycle()
    (order,) = world.decided(EvacuateJob)
    assert (order.job_id, order.node) == ("gang", "spot-0002")


def test_no_job_starts_on_a_node_that_is_being_reclaimed() -> None:
    world = harness()
    for node in ("spot-0001", "spot-0002", "spot-0003"):
        world.apply(notice(world, node))
    world.submit(job("late", gpus=1, markets=(Market.SPOT,)))
    world.cycle()
    assert world.hold_of("late") is not None
    world.apply(ev.NodeRestored(at_ms=world.now_ms, node="spot-0002")).cycle()
    assert node_of(world, "late") == "spot-0002"
    assert "spot-0002" not in world.state.notices


def test_a_node_with_a_rebalance_notice_is_used_last() -> None:
    world = harness()
    world.apply(notice(world, "spot-0001", NoticeKind.REBALANCE))
    world.apply(notice(world, "spot-0002", NoticeKind.REBALANCE))
    running(world, "first", "second", "third")
    assert node_of(world, "first") == "spot-0003"
    assert {node_of(world, "second"), node_of(world, "third")} == {"spot-0001", "spot-0002"}
    assert not world.decided(EvacuateJob)
    assert not state_faults(world.state)


def test_a_later_notice_that_is_less_urgent_changes_nothing() -> None:
    world = harness()
    first = notice(world, "spot-0001")
    world.apply(first).advance(30 * SECOND_MS)
    world.apply(notice(world, "spot-0001"))
    world.apply(notice(world, "spot-0001", NoticeKind.REBALANCE))
    assert world.state.notices == {"spot-0001": first}


@pytest.mark.parametrize(
    ("left_ms", "grace_ms"), [(120_000, 118_000), (30_000, 28_000), (5_000, 4_000), (0, 0), (-9, 0)]
)
def test_the_grace_period_ends_before_the_node(left_ms: int, grace_ms: int) -> None:
    notice = ev.SpotNotice(
        at_ms=0, node="n", source="test", kind=NoticeKind.TERMINATE, ends_at_ms=60_000 + left_ms
    )
    assert time_left_ms(notice, 60_000) == grace_ms


def test_a_notice_without_an_end_leaves_time_to_save() -> None:
    notice = ev.SpotNotice(at_ms=60_000, node="n", source="test", kind=NoticeKind.TERMINATE)
    assert time_left_ms(notice, 60_000) == 28_000


def test_the_checker_reports_missing_unneeded_and_late_stops() -> None:
    world = harness()
    running(world, "a", "b")
    doomed = node_of(world, "a")
    world.apply(notice(world, doomed))
    now_ms = world.now_ms
    order = EvacuateJob(job_id="a", attempt=1, node=doomed, grace_ms=1, lost_micro_usd=0)
    assert check(world.state, (order,), now_ms) == ()
    (left,) = check(world.state, (), now_ms)
    assert str(left) == f"a is not evacuated from {doomed}, which has a termination notice"
    long = EvacuateJob(job_id="a", attempt=1, node=doomed, grace_ms=200_000, lost_micro_usd=0)
    assert [one.rule for one in check(world.state, (long,), now_ms)] == ["grace-too-long"]
    idle = EvacuateJob(
        job_id="b", attempt=1, node=node_of(world, "b"), grace_ms=1, lost_micro_usd=0
    )
    assert [one.rule for one in check(world.state, (order, idle), now_ms)] == [
        "evacuated-without-notice"
    ]
    assert "stopped-twice" in [one.rule for one in check(world.state, (order, order), now_ms)]


def test_notices_survive_a_snapshot() -> None:
    world = harness()
    running(world, "a", "b")
    world.apply(notice(world, node_of(world, "a")))
    world.apply(notice(world, "spot-0003", NoticeKind.REBALANCE))
    declared = ev.FleetDeclared(
        at_ms=world.now_ms,
        fleet=FLEET,
        tenants=tuple(world.state.tenants.values()),
        policies=Policies(),
    )
    again = from_snapshot(to_snapshot(world.state, declared, world.now_ms))
    assert again.notices == world.state.notices
    assert not again.node(node_of(world, "a")).up
    assert again.node("spot-0003").avoided
    assert not state_faults(again)


def test_a_node_that_returns_is_open_again() -> None:
    world = harness()
    world.apply(notice(world, "spot-0001"))
    world.apply(ev.NodeLost(at_ms=world.now_ms, node="spot-0001"))
    world.apply(ev.NodeAdded(at_ms=world.now_ms, node=FLEET.nodes[0]))
    assert world.state.node("spot-0001").is_open
    assert not world.state.notices


def test_a_checkpoint_of_an_earlier_attempt_changes_nothing() -> None:
    world = harness()
    running(world, "a")
    saved_at_ms = world.job("a").saved_at_ms
    for job_id, attempt in (("a", 2), ("a", 0), ("unknown", 1)):
        late = ev.CheckpointSaved(at_ms=world.now_ms + 5, job_id=job_id, attempt=attempt, step=40)
        world.apply(late)
    record = world.job("a")
    assert (record.saved_at_ms, record.saved_step) == (saved_at_ms, None)


def test_a_requeue_without_a_notice_counts_until_a_newer_checkpoint() -> None:
    world = harness()
    for number in range(1, MOST_UNPROMPTED + 1):
        if number == 1:
            running(world, "a")
        else:
            world.cycle()
            world.start_all()
            world.apply(ev.CheckpointSaved(at_ms=world.now_ms, job_id="a", attempt=number, step=40))
        world.apply(
            ev.AttemptPreempted(
                at_ms=world.now_ms, job_id="a", attempt=number, cause=PreemptionCause.UNPROMPTED
            )
        )
    assert world.job("a").unprompted == 2, "the first was forgiven, saving step 40 again is nothing"


def test_the_loss_of_a_resumed_attempt_counts_from_its_resumed_step() -> None:
    world = harness()
    running(world, "a")
    world.advance(5 * MINUTE_MS)
    world.apply(ev.AttemptResumed(at_ms=world.now_ms, job_id="a", attempt=1, step=12))
    assert world.job("a").saved_at_ms == world.now_ms


def test_the_explanation_names_the_node_that_is_reclaimed() -> None:
    world = harness()
    running(world, "a")
    doomed = node_of(world, "a")
    world.apply(notice(world, doomed)).cycle()
    world.advance(20 * SECOND_MS)
    lines = explain(world.state, "a", world.now_ms).lines()
    left = write_duration(100 * SECOND_MS)
    assert (
        f"{doomed} will be terminated in {left} (spot notice from test): the job was asked to save "
        "its work and stop; it is then queued again."
    ) in lines
