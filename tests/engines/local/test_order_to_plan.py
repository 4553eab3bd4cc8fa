"""Ranks, devices and variables of tasks, from a start order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bursar.engines.local.gpu_discovery import DetectedGpu, DetectedMigDevice
from bursar.engines.local.order_to_plan import make_plan
from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor.attempt_plan import AttemptPlan, read_plan
from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import ShareUse, SliceUse, Task
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_harness import LocalHarness, until
from tests.conformance.engine_orders import order, tasks_on
from tests.conformance.engine_suite import output

MACHINE = LocalSettings(
    state=Path("/state"), path="/bin", language="C.UTF-8", log_file_mib=1, log_files=3
)
HALF = MigInstance(profile="3g.40gb", start=4)


def plan(*tasks: Task, machine: LocalSettings = MACHINE, job_id: str = "j-1") -> AttemptPlan:
    return make_plan(order(job_id, "true", tasks=tasks), machine)


def devices(planned: AttemptPlan) -> list[str]:
    return [task.env["CUDA_VISIBLE_DEVICES"] for task in planned.tasks]


DEVICES = {
    "a task without GPUs sees none": (Task(group="main", node="a", count=1), [""]),
    "a task sees the GPUs it holds": (
        Task(group="main", node="a", count=1, gpus=(1, 3)),
        ["1,3"],
    ),
    "tasks of a node share its GPUs evenly and in order": (
        Task(group="main", node="a", count=2, gpus=(0, 2, 5, 7)),
        ["0,2", "5,7"],
    ),
    "a virtual slice has a name that CUDA does not know": (
        Task(group="main", node="a", count=1, slices=(SliceUse(gpu=2, instance=HALF),)),
        ["MIG-virtual-2-3g.40gb-4"],
    ),
    "each task has its own share": (
        Task(
            group="main",
            node="a",
            count=2,
            shares=(
                ShareUse(gpu=1, percent=25, memory_mib=4096),
                ShareUse(gpu=2, percent=50, memory_mib=0),
            ),
        ),
        ["1", "2"],
    ),
}


@pytest.mark.parametrize("case", DEVICES)
def test_visible_devices(case: str) -> None:
    task, expected = DEVICES[case]
    assert devices(plan(task)) == expected


def test_mps_shares_limit_compute_and_memory() -> None:
    shares = (
        ShareUse(gpu=1, percent=25, memory_mib=4096),
        ShareUse(gpu=2, percent=50, memory_mib=0),
    )
    first, second = plan(Task(group="main", node="a", count=2, shares=shares)).tasks
    assert first.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert first.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4096M"
    assert second.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in second.env


def test_real_devices_are_named_by_their_uuid() -> None:
    mig = DetectedMigDevice(uuid="MIG-7", instance=HALF, memory_mib=40_192)
    gpus = (
        DetectedGpu(index=0, uuid="GPU-0", model="A100", memory_mib=81_920),
        DetectedGpu(index=1, uuid="GPU-1", model="A100", memory_mib=81_920, slices=(mig,)),
    )
    machine = replace(MACHINE, gpus={"a": gpus})
    whole = Task(group="main", node="a", count=1, gpus=(0,))
    sliced = Task(group="main", node="a", count=1, slices=(SliceUse(gpu=1, instance=HALF),))
    assert devices(plan(whole, machine=machine)) == ["GPU-0"]
    assert devices(plan(sliced, machine=machine)) == ["MIG-7"]


def test_ranks_follow_the_groups_of_the_job_then_the_placement() -> None:
    tasks = (
        Task(group="worker", node="a", count=2, gpus=(0, 1)),
        Task(group="worker", node="b", count=1, gpus=(0,)),
        Task(group="launcher", node="b", count=1),
    )
    wanted = order("j-1", "true", tasks=tasks)
    groups = tuple(reversed(wanted.spec.groups))
    planned = make_plan(replace(wanted, spec=replace(wanted.spec, groups=groups)), MACHINE)
    ranks = [
        (task.env["BURSAR_GROUP"], task.node, task.env["LOCAL_RANK"], task.env["NODE_RANK"])
        for task in planned.tasks
    ]
    assert ranks == [
        ("launcher", "b", "0", "0"),
        ("worker", "a", "0", "1"),
        ("worker", "a", "1", "1"),
        ("worker", "b", "1", "0"),
    ]
    assert [task.env["SKYPILOT_NODE_RANK"] for task in planned.tasks] == ["0", "1", "2", "3"]
    assert planned.tasks[0].env["SKYPILOT_NODE_IPS"].split() == ["127.0.0.1"] * 4
    assert [task.env["SKYPILOT_NUM_GPUS_PER_NODE"] for task in planned.tasks] == list("0111")


def test_a_member_of_an_array_gets_its_index() -> None:
    assert plan(*tasks_on("a"), job_id="j-7[12]").tasks[0].env["BURSAR_ARRAY_INDEX"] == "12"


def test_limits_are_those_of_all_tasks_on_a_node_and_none_when_one_has_none() -> None:
    one = Task(group="main", node="a", count=1, memory_mib=100, cpu_milli=500)
    two = Task(group="other", node="a", count=1, memory_mib=50, cpu_milli=500)
    assert {(t.memory_mib, t.cpu_milli) for t in plan(one, two).tasks} == {(150, 1000)}
    assert {t.memory_mib for t in plan(one, replace(two, memory_mib=0)).tasks} == {0}


def test_a_plan_survives_the_round_trip_through_a_message() -> None:
    wanted = plan(Task(group="main", node="a", count=2, gpus=(0, 1)))
    assert read_plan(wanted.as_message()) == wanted


REFUSED = {
    "a preloaded library": (RunSpec(run="true", envs={"LD_PRELOAD": "x.so"}), "LD_PRELOAD"),
    "a library path": (RunSpec(run="true", envs={"LD_LIBRARY_PATH": "x"}), "export it in run"),
    "a start file of the shell": (RunSpec(run="true", envs={"BASH_ENV": "x"}), "BASH_ENV"),
    "a function for the shell": (RunSpec(run="true", envs={"BASH_FUNC_x%%": "() {"}), "BASH_FUNC_"),
    "GPUs that were not assigned": (
        RunSpec(run="true", envs={"CUDA_VISIBLE_DEVICES": "0"}),
        "set by Bursar",
    ),
    "a variable of Bursar": (RunSpec(run="true", envs={"BURSAR_JOB_ID": "j-2"}), "set by Bursar"),
    "a rank": (RunSpec(run="true", secrets={"RANK": "0"}), "set by Bursar"),
    "an invalid name": (RunSpec(run="true", envs={"A=B": "x"}), "not a valid variable name"),
    "a NUL in a value": (RunSpec(run="true", secrets={"A": "x\0y"}), "NUL"),
    "a NUL in an argument": (RunSpec(argv=("echo", "a\0b")), "NUL"),
    "nothing to run": (RunSpec(), "nothing to run"),
    "a shell without a path": (RunSpec(run="true", shell="bash"), "absolute path"),
    "a signal that cannot be caught": (RunSpec(run="true", stop_signal="SIGKILL"), "SIGTERM"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_order_is_refused_for(case: str) -> None:
    recipe, reason = REFUSED[case]
    assert reason in make_plan(order("j-1", recipe), MACHINE).refused


def test_a_refused_attempt_ends_without_running(harness: LocalHarness) -> None:
    listener = harness.open()
    recipe = RunSpec(run="echo ran", envs={"LD_PRELOAD": "x.so"})
    wanted = order("j-1", recipe)
    listener.engine.start(wanted)
    ended = listener.ended(wanted.ref)
    assert ended.code is None and "LD_PRELOAD" in ended.detail
    assert output(listener, wanted.ref) == ""


def test_tasks_get_a_clean_environment_and_private_folders(
    harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CONTROL_PLANE", "secret")
    listener = harness.open()
    wanted = order("j-1", 'env; stat -c "mode=%a" . "$TMPDIR"; pwd; echo "here=$HOME"')
    listener.engine.start(wanted)
    listener.ended(wanted.ref)
    text = output(listener, wanted.ref)
    lines = text.splitlines()
    assert "OF_THE_CONTROL_PLANE" not in text
    assert lines.count("mode=700") == 2
    assert f"here={lines[-2]}" == lines[-1]
    scratch = harness.state / "jobs" / "j-1" / "1" / "scratch"
    assert scratch.parent.is_dir()
    until("scratch is removed", lambda: not scratch.exists())
