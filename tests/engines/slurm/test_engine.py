"""Behaviour of the Slurm engine beyond that of every engine, on a real cluster."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.engines.slurm.commands.rest_connection import UnknownOutcome
from bursar.engines.slurm.driven.attempt_folder import EndRecord, SlurmAttemptFolder
from bursar.engines.slurm.driven.outbox import SENDERS
from bursar.engines.slurm.driven.settings import SlurmSettings
from bursar.engines.slurm.driven.submit import Submitter
from bursar.model.engine_report import ForeignReported
from bursar.model.event import AttemptStarted
from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import ShareUse, SliceUse, Task
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_harness import Listener, SlurmHarness, slurm_harness, until
from tests.conformance.engine_orders import order, ref
from tests.conformance.engine_suite import output
from tests.support.shared_slurm_lab import needs_slurm

pytestmark = [pytest.mark.real, needs_slurm]

SHOW = 'echo "$BURSAR_NODE $CUDA_VISIBLE_DEVICES"'
SLEEP = "exec sleep 60"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlurmHarness]:
    with slurm_harness(tmp_path) as harness:
        yield harness


def shown(listener: Listener, task: int = 0) -> str:
    assert listener.ended(ref("j-1")).code == 0
    return output(listener, ref("j-1"), task=task).strip()


def slurm_ids(harness: SlurmHarness) -> list[str]:
    """Ids of this installation's pending and running jobs."""
    own = (harness.state / "slurm" / "installation").read_text(encoding="ascii").strip()
    lines = harness.lab.run("squeue", "-h", "-o", "%i|%k").splitlines()
    return [line.partition("|")[0] for line in lines if f"bursar:{own}:" in line]


# -- devices ---------------------------------------------------------------------------------------


def test_devices_with_their_own_types_are_allocated_exactly(harness: SlurmHarness) -> None:
    listener = harness.open()
    first = Task(group="main", node="exact-1", count=1, gpus=(3,))
    listener.engine.start(order("j-2", SLEEP, tasks=[first]))
    listener.started(ref("j-2"))
    listener.engine.start(
        order("j-1", SHOW, tasks=[Task(group="main", node="exact-1", count=1, gpus=(0, 2))])
    )
    assert shown(listener) == "exact-1 0,2"


def test_each_task_of_a_gang_sees_its_own_devices(harness: SlurmHarness) -> None:
    listener = harness.open()
    tasks = [
        Task(group="main", node="exact-1", count=2, gpus=(3, 1)),
        Task(group="main", node="a100-1", count=2, gpus=(0, 1, 2, 3)),
    ]
    listener.engine.start(order("j-1", SHOW, tasks=tasks))
    assert [shown(listener, task) for task in (0, 1)] == ["exact-1 3", "exact-1 1"]
    seen = [shown(listener, task).partition(" ")[2].split(",") for task in (2, 3)]
    assert [len(one) for one in seen] == [2, 2] and not set(seen[0]) & set(seen[1])


def test_groups_with_different_requests_are_one_job(harness: SlurmHarness) -> None:
    listener = harness.open()
    tasks = [
        Task(group="driver", node="a", count=1, cpu_milli=2_000, memory_mib=300),
        Task(group="worker", node="t4-1", count=1, gpus=(0, 1, 2)),
        Task(group="worker", node="t4-2", count=1, gpus=(1, 2, 3)),
    ]
    script = f'{SHOW}; echo "$BURSAR_GROUP $RANK $WORLD_SIZE $MASTER_ADDR"'
    listener.engine.start(order("j-1", script, tasks=tasks))
    outputs = [shown(listener, task).splitlines() for task in range(3)]
    assert [len(lines[0].split(",")) for lines in outputs[1:]] == [3, 3]
    assert [lines[1] for lines in outputs] == [
        "driver 0 3 127.0.0.1",
        "worker 1 3 127.0.0.1",
        "worker 2 3 127.0.0.1",
    ]


def test_slices_and_shares_are_requested_by_their_types(harness: SlurmHarness) -> None:
    listener = harness.open()
    use = SliceUse(gpu=0, instance=MigInstance(profile="1g.10gb", start=0))
    share = ShareUse(gpu=0, percent=50, memory_mib=0)
    tasks = [
        Task(group="main", node="mig-1", count=1, slices=(use,)),
        Task(group="main", node="shard-1", count=1, shares=(share,)),
    ]
    script = f'{SHOW}; echo "$SLURM_SHARDS_ON_NODE $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'
    listener.engine.start(order("j-1", script, tasks=tasks))
    assert shown(listener, 0).splitlines()[0] in ("mig-1 2", "mig-1 3")
    assert shown(listener, 1).splitlines()[1].split() == ["2", "50"]


# -- actions outside Bursar ------------------------------------------------------------------------


def test_a_job_cancelled_in_slurm_is_reported_as_such(harness: SlurmHarness) -> None:
    listener = harness.open()
    listener.engine.start(order("j-1", SLEEP))
    listener.started(ref("j-1"))
    harness.lab.run("scancel", *slurm_ids(harness))
    ended = listener.ended(ref("j-1"))
    assert ended.code is None and "cancelled in Slurm, not by Bursar" in ended.detail


def test_a_job_cancelled_in_slurm_before_it_began_is_reported_as_such(
    harness: SlurmHarness,
) -> None:
    listener = harness.open()
    whole_node = Task(group="main", node="shard-1", count=1, gpus=(0, 1))
    listener.engine.start(order("j-2", SLEEP, tasks=[whole_node]))
    listener.started(ref("j-2"))
    listener.engine.start(order("j-1", "true", tasks=[whole_node]))
    waiting = slurm_ids(harness)[-1]
    harness.lab.run("scancel", str(max(map(int, slurm_ids(harness)), default=int(waiting))))
    ended = listener.ended(ref("j-1"))
    assert "cancelled in Slurm" in ended.detail and "before its tasks were started" in ended.detail
    assert listener.count(AttemptStarted, ref("j-1")) == 0


def test_usage_by_other_users_is_reported_and_withdrawn(harness: SlurmHarness) -> None:
    listener = harness.open_with(
        replace(harness.settings(), nodes=("exact-1",), node_poll_seconds=0.3)
    )
    arguments = ("--parsable", "-o", "/dev/null", "-w", "exact-1", "-c", "2", "--gres=gpu:t4-1:1")
    foreign = harness.lab.run("sbatch", *arguments, "--wrap", "sleep 60", user="alice").strip()

    def reported_gpus() -> list[tuple[int, ...]]:
        listener.listen(0.2)
        return [report.gpus for report in listener.received if isinstance(report, ForeignReported)]

    until("the job of another user is reported", lambda: (1,) in reported_gpus())
    harness.lab.run("scancel", foreign)
    until("it is gone", lambda: reported_gpus()[-1] == ())


# -- submission ------------------------------------------------------------------------------------


def test_without_slurmrestd_jobs_are_submitted_by_sbatch(
    harness: SlurmHarness, tmp_path: Path
) -> None:
    absent = replace(harness.settings(), rest_socket=tmp_path / "absent")
    listener = harness.open_with(absent)
    tasks = [
        Task(group="main", node="a", count=1),
        Task(group="main", node="t4-1", count=1, gpus=(0,)),
    ]
    listener.engine.start(order("j-1", SHOW, tasks=tasks))
    assert shown(listener, 0) == "a"
    assert shown(listener, 1).startswith("t4-1 ")


@pytest.mark.parametrize("way", ["slurmrestd", "sbatch"])
def test_slurm_never_requeues_a_job(harness: SlurmHarness, way: str) -> None:
    """A retry is another attempt, which the core decides."""
    settings = harness.settings()
    listener = harness.open_with(
        replace(settings, rest_socket=None) if way == "sbatch" else settings
    )
    listener.engine.start(order("j-1", SLEEP))
    listener.started(ref("j-1"))
    (ident,) = slurm_ids(harness)
    assert "Requeue=0" in harness.lab.run("scontrol", "-o", "show", "job", ident).split()


def test_a_lost_response_starts_no_job_twice(
    harness: SlurmHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is in Slurm, and the engine does not know: it looks up the comment before it resubmits."""
    trail = tmp_path / "trail"
    submit = Submitter.submit
    lost_ids = []

    def submit_and_lose(self: Submitter, *arguments: object) -> str:
        job_id = submit(self, *arguments)  # type: ignore[arg-type]
        if not lost_ids:
            lost_ids.append(job_id)
            raise UnknownOutcome("the response is lost", retry_after_seconds=0.1)
        return job_id

    monkeypatch.setattr(Submitter, "submit", submit_and_lose)
    listener = harness.open()
    wanted = order("j-1", RunSpec(run=f'echo ran >> "{trail}"; sleep 3'))
    listener.engine.start(wanted)
    assert listener.ended(ref("j-1")).code == 0
    assert trail.read_text(encoding="utf-8") == "ran\n"
    assert len(lost_ids) == 1


def test_orders_are_stored_while_slurm_does_not_respond(
    harness: SlurmHarness, tmp_path: Path
) -> None:
    """An order that was accepted while Slurm's commands failed runs when they work again."""
    harness.open().engine.close()
    programs = tmp_path / "bin"
    programs.mkdir()
    environment = {**harness.lab.environment(), "PATH": str(programs)}
    away = SlurmSettings(
        state=harness.state, commands=Commands(environment=environment), nodes=(), poll_seconds=0.5
    )
    listener = harness.open_with(away)
    listener.engine.start(order("j-1", "exit 4"))
    time.sleep(1.0)
    listener.listen(0.0)
    assert listener.received == [] and listener.engine.unknown([ref("j-1")]) == ()
    for name in ("sbatch", "squeue", "scontrol", "scancel", "sacct"):
        os.symlink(f"/usr/bin/{name}", programs / name)
    assert listener.ended(ref("j-1")).code == 4


def test_a_refused_job_ends_with_the_message_of_slurm(harness: SlurmHarness) -> None:
    listener = harness.open_with(
        replace(harness.settings(), account="no-such-account", partition="nowhere")
    )
    listener.engine.start(order("j-1", "true"))
    assert "invalid partition" in listener.ended(ref("j-1")).detail.lower()


def test_a_temporary_write_error_stops_no_submission_thread(
    harness: SlurmHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails once for each thread; a later order is submitted nevertheless."""
    listener = harness.open()
    write, failures = (
        SlurmAttemptFolder.write_end,
        [OSError(28, "No space left on device")] * SENDERS,
    )

    def write_on_a_full_disk(folder: SlurmAttemptFolder, record: EndRecord) -> None:
        if failures:
            raise failures.pop()
        write(folder, record)

    def refuse(_submitter: Submitter, *_arguments: object) -> str:
        raise SlurmRefused("Slurm: sbatch: no such partition", retry_after_seconds=0.1)

    with monkeypatch.context() as bad:
        bad.setattr(SlurmAttemptFolder, "write_end", write_on_a_full_disk)
        bad.setattr(Submitter, "submit", refuse)
        listener.engine.start(order("j-1", "true"))
        assert "no such partition" in listener.ended(ref("j-1")).detail
    assert failures == []
    listener.engine.start(order("j-2", "exit 4"))
    assert listener.ended(ref("j-2")).code == 4


# -- accounts --------------------------------------------------------------------------------------


def test_jobs_use_the_account_of_their_queue(harness: SlurmHarness) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    harness.lab.run("sacctmgr", "-i", "add", "account", "booked")
    harness.lab.run("sacctmgr", "-i", "add", "user", me, "account=booked")
    listener = harness.open()
    one = order("j-1", SLEEP)
    listener.engine.start(replace(one, spec=replace(one.spec, queue="Booked")))
    listener.engine.start(order("j-2", SLEEP))
    for name in ("j-1", "j-2"):
        listener.started(ref(name))
    booked = [f"{job}|{account}" for job, account in (("j-1", "booked"), ("j-2", me))]
    ids = ",".join(slurm_ids(harness))
    assert sorted(harness.lab.run("squeue", "-h", "-j", ids, "-o", "%j|%a").split()) == booked
