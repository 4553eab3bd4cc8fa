"""From what happens on a control plane to what people read, with a channel that fails now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from bursar.control.control_plane import ControlPlane
from bursar.model.engine_report import CheckpointReported, NodeLostReported
from bursar.model.errors import EngineFault
from bursar.model.event import BudgetLevelChanged
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobState
from bursar.model.notification import Channel, ChannelKind, Notification, NotificationKind
from bursar.notify.delivery import Delivery, DeliveryRound
from bursar.notify.occasions import Occasions
from bursar.ports import Recorded
from tests.control.stand import Stand, gpu_job, row_of, submit, until, until_state


@dataclass
class Ear:
    """A channel that hears, after as many failures as it is told."""

    fails: int = 0
    pause: float = 0.001
    heard: list[Notification] = field(default_factory=list)

    def send(self, message: Notification) -> None:
        if self.fails:
            self.fails -= 1
            raise EngineFault("the ear is busy", retry_after_seconds=self.pause)
        self.heard.append(message)

    @property
    def titles(self) -> list[tuple[str, str]]:
        return [(one.occasion.value, one.title.partition(" ")[2]) for one in self.heard]


def courier_of(
    plane: ControlPlane, folder: Path, ear: Ear, told: list[str], **more: object
) -> Delivery:
    channel = Channel(name="ear", kind=ChannelKind.WEBHOOK, **more)  # type: ignore[arg-type]
    around = DeliveryRound(
        reader=plane.reader,
        leads=lambda: True,
        last_sequence=lambda: plane.health().last_sequence,
        parents=lambda: {"retraining": "acme", "experiments": "acme", "acme": None},
        now_ms=lambda: time.time_ns() // 1_000_000,
        tell=told.append,
        folder=folder,
    )
    return Delivery(channel, ear, around)


def fail_a_job(stand: Stand, plane: ControlPlane) -> str:
    (job,) = submit(plane, gpu_job())
    until_state(plane, job, JobState.RUNNING)
    stand.engine.end(job, code=3)
    until_state(plane, job, JobState.FAILED)
    return job


def test_a_failure_is_told_once_and_again_only_from_where_it_stopped(tmp_path: Path) -> None:
    stand, ear, told = Stand(tmp_path), Ear(fails=2), list[str]()
    with stand.plane() as plane:
        first = fail_a_job(stand, plane)
        at = courier_of(plane, tmp_path, ear, told).look(0)
        assert [one.job_id for one in ear.heard] == [first]
        assert "exit code 3" in ear.heard[0].text and f"bursar logs {first}" in ear.heard[0].text
        assert at == plane.health().last_sequence
        second = fail_a_job(stand, plane)
        successor = courier_of(plane, tmp_path, ear, told)
        successor.start()
        until(lambda: len(ear.heard) == 2, "the second failure is told")
        successor.close()
    assert [one.job_id for one in ear.heard] == [first, second]
    assert told == []


def test_a_channel_that_never_hears_is_given_up_and_the_operator_is_told(tmp_path: Path) -> None:
    stand, ear, told = Stand(tmp_path), Ear(fails=1, pause=0.0), list[str]()
    with stand.plane() as plane:
        fail_a_job(stand, plane)
        fail_a_job(stand, plane)
        courier_of(plane, tmp_path, ear, told).look(0)
    assert len(ear.heard) == 1
    assert len(told) == 1 and "the channel ear was not told that train" in told[0]


def test_only_what_concerns_a_channel(tmp_path: Path) -> None:
    stand, other, budget, ours = Stand(tmp_path), Ear(), Ear(), Ear()
    with stand.plane() as plane:
        fail_a_job(stand, plane)
        courier_of(plane, tmp_path, other, [], tenants=("experiments",)).look(0)
        courier_of(plane, tmp_path, budget, [], on=(NotificationKind.BUDGET,)).look(0)
        courier_of(plane, tmp_path, ours, [], tenants=("acme",)).look(0)
    assert (len(other.heard), len(budget.heard), len(ours.heard)) == (0, 0, 1)


def test_an_interruption_and_the_return_from_it(tmp_path: Path) -> None:
    """A node is lost; its job waits, starts elsewhere and saves: two messages, though it saved twice."""
    stand, ear = Stand(tmp_path), Ear()
    with stand.plane() as plane:
        (victim,) = submit(plane, gpu_job(4, "experiments"))
        until_state(plane, victim, JobState.RUNNING)
        (other,) = submit(plane, gpu_job(4, "experiments"))
        until_state(plane, other, JobState.RUNNING)
        node = placed(plane, victim).tasks[0].node
        stand.engine.report(NodeLostReported(node=node, at_ms=time.time_ns() // 1_000_000))
        until(lambda: row_of(plane, victim).state is JobState.QUEUED, "the victim waits again")
        stand.engine.end(other)
        until(lambda: row_of(plane, victim).attempt == 2, "it has a second attempt")
        until_state(plane, victim, JobState.RUNNING)
        saved = CheckpointReported(
            job_id=victim, attempt=2, at_ms=time.time_ns() // 1_000_000, step=40
        )
        stand.engine.report(saved)
        stand.engine.report(saved)
        until(lambda: bool(row_of(plane, victim).saved_at_ms), "the save is known")
        courier_of(plane, tmp_path, ear, []).look(0)
    assert ear.titles == [
        ("preempted", f"({victim}) was interrupted"),
        ("recovered", f"({victim}) is back"),
    ]
    assert f"its node {node} was lost" in ear.heard[0].text
    assert "has saved step 40" in ear.heard[-1].text


def placed(plane: ControlPlane, job: str) -> Placement:
    placement = row_of(plane, job).placement
    assert placement is not None
    return placement


def test_a_budget_that_passes_a_step() -> None:
    event = BudgetLevelChanged(
        at_ms=5,
        tenant="vision",
        level=80,
        spent_micro_usd=81_000_000,
        amount_micro_usd=100_000_000,
        period_start_ms=0,
    )
    (said,) = Occasions(lambda _: None).messages(Recorded(sequence=3, event=event))
    assert said.title == "vision has spent 80 % of its budget"
    assert "$81.00 of $100.00" in said.text
