"""Events of a control plane are delivered through a channel that may fail."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bursar.control.control_plane import ControlPlane
from bursar.model.errors import EngineFault
from bursar.model.event import AttemptAssigned, BudgetLevelChanged, CheckpointSaved, NodeLost
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobState
from bursar.model.notification import Channel, ChannelKind, Notification, NotificationKind
from bursar.notify.delivery import Delivery, DeliveryContext
from bursar.notify.messages import MessageBuilder
from bursar.ports import JobFilter, JobRow, Recorded
from tests.control.harness import ControlPlaneHarness, gpu_job, row_of, submit, until, until_state


@dataclass
class FakeNotifier:
    """Records messages after a number of failures."""

    failures: int = 0
    retry_seconds: float = 0.001
    messages: list[Notification] = field(default_factory=list)

    def send(self, message: Notification) -> None:
        if self.failures:
            self.failures -= 1
            raise EngineFault("the channel is busy", retry_after_seconds=self.retry_seconds)
        self.messages.append(message)

    @property
    def titles(self) -> list[tuple[str, str]]:
        return [(one.occasion.value, one.title.partition(" ")[2]) for one in self.messages]


def new_delivery(
    plane: ControlPlane,
    folder: Path,
    notifier: FakeNotifier,
    problems: list[str],
    **options: object,
) -> Delivery:
    channel = Channel(name="ops", kind=ChannelKind.WEBHOOK, **options)  # type: ignore[arg-type]
    context = DeliveryContext(
        reader=plane.reader,
        is_leader=lambda: True,
        last_sequence=lambda: plane.health().last_sequence,
        parents=lambda: {"retraining": "acme", "experiments": "acme", "acme": None},
        now_ms=lambda: time.time_ns() // 1_000_000,
        report=problems.append,
        folder=folder,
    )
    return Delivery(channel, notifier, context)


def fail_a_job(harness: ControlPlaneHarness, plane: ControlPlane) -> str:
    (job,) = submit(plane, gpu_job())
    until_state(plane, job, JobState.RUNNING)
    harness.engine.end(job, code=3)
    until_state(plane, job, JobState.FAILED)
    return job


def test_a_failure_is_delivered_once_and_a_restart_continues_after_it(tmp_path: Path) -> None:
    harness, notifier, problems = (
        ControlPlaneHarness(tmp_path),
        FakeNotifier(failures=2),
        list[str](),
    )
    with harness.plane() as plane:
        first = fail_a_job(harness, plane)
        sequence = new_delivery(plane, tmp_path, notifier, problems).deliver_after(0)
        assert [one.job_id for one in notifier.messages] == [first]
        text = notifier.messages[0].text
        assert "exit code 3" in text and f"bursar logs {first}" in text
        assert sequence == plane.health().last_sequence
        second = fail_a_job(harness, plane)
        restarted = new_delivery(plane, tmp_path, notifier, problems)
        restarted.start()
        until(lambda: len(notifier.messages) == 2, "the second failure is delivered")
        restarted.close()
    assert [one.job_id for one in notifier.messages] == [first, second]
    assert problems == []


def test_a_store_that_fails_for_a_while_ends_no_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, notifier = ControlPlaneHarness(tmp_path), FakeNotifier()
    with harness.plane() as plane:
        delivery = new_delivery(plane, tmp_path, notifier, [])
        jobs, refused = plane.reader.jobs, list[JobFilter]()

        def unavailable_once(wanted: JobFilter) -> object:
            if not refused:
                refused.append(wanted)
                raise EngineFault("the database does not answer", retry_after_seconds=0.01)
            return jobs(wanted)

        monkeypatch.setattr(plane.reader, "jobs", unavailable_once)
        delivery.start()
        until(lambda: bool(refused) and not delivery.fault, "the store is asked again")
        job = fail_a_job(harness, plane)
        until(lambda: len(notifier.messages) == 1, "the failure is delivered")
        delivery.close()
    assert [one.job_id for one in notifier.messages] == [job]


def test_a_store_that_fails_within_a_batch_causes_no_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, notifier, problems = ControlPlaneHarness(tmp_path), FakeNotifier(), list[str]()
    with harness.plane() as plane:
        first, second = fail_a_job(harness, plane), fail_a_job(harness, plane)
        job, refused = plane.reader.job, list[str]()

        def unavailable_once(job_id: str) -> JobRow | None:
            if job_id == second and not refused:
                refused.append(job_id)
                raise EngineFault("the database does not answer", retry_after_seconds=0.01)
            return job(job_id)

        monkeypatch.setattr(plane.reader, "job", unavailable_once)
        (tmp_path / "notified-ops").write_text("0")
        delivery = new_delivery(plane, tmp_path, notifier, problems)
        delivery.start()
        until(lambda: len(notifier.messages) >= 2, "both failures are delivered")
        delivery.close()
    assert [one.job_id for one in notifier.messages] == [first, second]
    fault = "channel ops: the database does not answer. Messages wait until it works again."
    assert problems == [fault]


def test_a_store_that_fails_while_a_node_is_lost_loses_no_message(tmp_path: Path) -> None:
    harness, calls = ControlPlaneHarness(tmp_path), list[str]()
    with harness.plane() as plane:
        (job,) = submit(plane, gpu_job())
        until_state(plane, job, JobState.RUNNING)
        row, placement = row_of(plane, job), placement_of(plane, job)

    def unavailable_once(job_id: str) -> JobRow:
        calls.append(job_id)
        if len(calls) == 2:
            raise EngineFault("the database does not answer", retry_after_seconds=0.01)
        return replace(row, id=job_id)

    builder = MessageBuilder(unavailable_once)
    for job_id in ("a", "b"):
        event = AttemptAssigned(at_ms=0, job_id=job_id, attempt=1, placement=placement)
        builder.messages(Recorded(sequence=1, event=event))
    lost = Recorded(sequence=2, event=NodeLost(at_ms=1, node=placement.tasks[0].node))
    with pytest.raises(EngineFault):
        builder.messages(lost)
    assert [one.job_id for one in builder.messages(lost)] == ["a", "b"]


def test_an_undeliverable_message_is_dropped_and_reported_to_the_operator(tmp_path: Path) -> None:
    harness, problems = ControlPlaneHarness(tmp_path), list[str]()
    notifier = FakeNotifier(failures=1, retry_seconds=0.0)
    with harness.plane() as plane:
        fail_a_job(harness, plane)
        fail_a_job(harness, plane)
        new_delivery(plane, tmp_path, notifier, problems).deliver_after(0)
    assert len(notifier.messages) == 1
    assert len(problems) == 1
    assert "channel ops: the message 'train" in problems[0] and "was not delivered" in problems[0]


def test_a_channel_gets_only_its_occasions_and_tenants(tmp_path: Path) -> None:
    harness, other, budget, parent = (
        ControlPlaneHarness(tmp_path),
        FakeNotifier(),
        FakeNotifier(),
        FakeNotifier(),
    )
    with harness.plane() as plane:
        fail_a_job(harness, plane)
        new_delivery(plane, tmp_path, other, [], tenants=("experiments",)).deliver_after(0)
        new_delivery(plane, tmp_path, budget, [], on=(NotificationKind.BUDGET,)).deliver_after(0)
        new_delivery(plane, tmp_path, parent, [], tenants=("acme",)).deliver_after(0)
    assert (len(other.messages), len(budget.messages), len(parent.messages)) == (0, 0, 1)


def test_an_interruption_and_the_recovery_are_each_reported_once(tmp_path: Path) -> None:
    """The job loses its node, starts on another and saves twice: two messages."""
    harness, notifier = ControlPlaneHarness(tmp_path), FakeNotifier()
    with harness.plane() as plane:
        (victim,) = submit(plane, gpu_job(4, "experiments"))
        until_state(plane, victim, JobState.RUNNING)
        (other,) = submit(plane, gpu_job(4, "experiments"))
        until_state(plane, other, JobState.RUNNING)
        node = placement_of(plane, victim).tasks[0].node
        harness.engine.report(NodeLost(node=node, at_ms=time.time_ns() // 1_000_000))
        until(lambda: row_of(plane, victim).state is JobState.QUEUED, "the victim is queued again")
        harness.engine.end(other)
        until(lambda: row_of(plane, victim).attempt == 2, "the second attempt is assigned")
        until_state(plane, victim, JobState.RUNNING)
        checkpoint = CheckpointSaved(
            job_id=victim, attempt=2, at_ms=time.time_ns() // 1_000_000, step=40
        )
        harness.engine.report(checkpoint)
        harness.engine.report(checkpoint)
        until(lambda: bool(row_of(plane, victim).saved_at_ms), "the checkpoint is recorded")
        new_delivery(plane, tmp_path, notifier, []).deliver_after(0)
    assert notifier.titles == [
        ("preempted", f"({victim}) was interrupted"),
        ("recovered", f"({victim}) recovered"),
    ]
    assert f"its node {node} was lost" in notifier.messages[0].text
    assert "saved a checkpoint at step 40" in notifier.messages[-1].text


def placement_of(plane: ControlPlane, job: str) -> Placement:
    placement = row_of(plane, job).placement
    assert placement is not None
    return placement


def test_a_budget_that_passes_a_threshold_is_reported() -> None:
    event = BudgetLevelChanged(
        at_ms=5,
        tenant="vision",
        level=80,
        spent_micro_usd=81_000_000,
        amount_micro_usd=100_000_000,
        period_start_ms=0,
    )
    (message,) = MessageBuilder(lambda _: None).messages(Recorded(sequence=3, event=event))
    assert message.title == "vision has spent 80 % of its budget"
    assert "$81.00 of $100.00" in message.text
