"""A task over its memory limit is killed, with the amounts in its exit detail."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from bursar.engines.local.settings import LocalSettings
from bursar.engines.local.supervisor.resource_limits import ControlGroup, NodeLimit
from bursar.model.jobs.run_spec import RunSpec
from tests.conformance.engine_harness import LocalHarness
from tests.conformance.engine_orders import order, ref, tasks_on

GREEDY = (sys.executable, "-c", "import time; x = bytearray(200 << 20); time.sleep(60)")
SHARING = """
import os, time
x = bytearray(60 << 20)
for _ in range(4):
    if os.fork() == 0:
        time.sleep(1.2)
        os._exit(0)
for _ in range(4):
    os.wait()
"""


def test_a_task_over_its_memory_limit_is_killed_and_the_detail_names_it(
    harness: LocalHarness,
) -> None:
    listener = harness.open()
    tasks = [replace(tasks_on("node-0")[0], memory_mib=100)]
    listener.engine.start(order("j-1", RunSpec(argv=GREEDY), tasks=tasks))
    ended = listener.ended(ref("j-1"))
    assert ended.signal == 9
    assert "of 100 MiB memory on node node-0" in ended.detail


def test_memory_shared_by_workers_counts_once(harness: LocalHarness) -> None:
    """Five processes of 60 MiB each that share all of it are not 300 MiB."""
    listener = harness.open()
    tasks = [replace(tasks_on("node-0")[0], memory_mib=150)]
    recipe = RunSpec(argv=(sys.executable, "-c", SHARING))
    listener.engine.start(order("j-1", recipe, tasks=tasks))
    ended = listener.ended(ref("j-1"))
    assert (ended.code, ended.detail) == (0, "")


def test_each_node_of_a_gang_has_its_own_limit(harness: LocalHarness) -> None:
    listener = harness.open()
    tasks = [
        replace(task, memory_mib=mib)
        for task, mib in zip(tasks_on("a", "b"), (400, 100), strict=True)
    ]
    listener.engine.start(order("j-1", RunSpec(argv=GREEDY), tasks=tasks))
    assert "of 100 MiB memory on node b" in listener.ended(ref("j-1")).detail


# A plain folder replaces the kernel's cgroup file system.

FILES = (
    "memory.max",
    "memory.swap.max",
    "memory.oom.group",
    "cpu.max",
    "cgroup.procs",
    "cgroup.kill",
)


def group_folder(parent: Path, name: str, *files: str) -> Path:
    folder = parent / name
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    return folder


def test_a_control_group_limits_memory_and_cpu(tmp_path: Path) -> None:
    folder = group_folder(tmp_path, "j-1@1-0", *FILES)
    group = ControlGroup(str(tmp_path), "j-1@1-0", NodeLimit("a", 2_500, 4 << 30))
    assert (folder / "memory.max").read_text() == str(4 << 30)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "cpu.max").read_text() == "250000 100000"
    assert group.bounds_memory
    group.kill()
    assert (folder / "cgroup.kill").read_text() == "1"


def test_a_kill_by_the_kernel_is_described_with_its_amounts(tmp_path: Path) -> None:
    folder = group_folder(tmp_path, "g", *FILES)
    group = ControlGroup(str(tmp_path), "g", NodeLimit("a", 0, 4 << 30))
    assert group.excess() == ""
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 0\n")
    assert group.excess() == ""
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert "used 4.0 GiB of 4.0 GiB memory on node a" in group.excess()


def test_tasks_join_their_control_group(harness: LocalHarness, tmp_path: Path) -> None:
    parent = tmp_path / "delegated"
    folder = group_folder(parent, "j-1@1-0", *FILES)
    settings = LocalSettings(state=harness.state, cgroup=parent, supervisor_linger_seconds=0.3)
    listener = harness.open_with(settings)
    tasks = [replace(tasks_on("node-0")[0], memory_mib=100, cpu_milli=1_500)]
    listener.engine.start(order("j-1", f"echo $$ > {tmp_path}/pid", tasks=tasks))
    assert listener.ended(ref("j-1")).code == 0
    assert (folder / "cgroup.procs").read_text() == (tmp_path / "pid").read_text().strip()
    assert (folder / "cpu.max").read_text() == "150000 100000"


def test_memory_is_polled_without_a_control_group(harness: LocalHarness, tmp_path: Path) -> None:
    """A configured folder that does not exist must not leave memory without a limit."""
    parent = tmp_path / "file"
    parent.touch()
    settings = LocalSettings(state=harness.state, cgroup=parent, supervisor_linger_seconds=0.3)
    listener = harness.open_with(settings)
    tasks = [replace(tasks_on("node-0")[0], memory_mib=100)]
    listener.engine.start(order("j-1", RunSpec(argv=GREEDY), tasks=tasks))
    assert "of 100 MiB memory" in listener.ended(ref("j-1")).detail
