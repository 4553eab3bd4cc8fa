"""The scripts of attempts, run by bash without Slurm; requests; and the resolution of missing attempts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bursar.codec import from_text, to_text
from bursar.engines.slurm.commands.gres import parse_gres
from bursar.engines.slurm.commands.inventory import SlurmNode
from bursar.engines.slurm.commands.job_query import SlurmJobState
from bursar.engines.slurm.driven.attempt_folder import AttemptFolders, EndRecord, SlurmAttemptFolder
from bursar.engines.slurm.driven.attempt_tracking import (
    LATE_SECONDS,
    MOST_SUBMISSIONS,
    MissingContext,
    StopState,
    TrackedAttempt,
    exit_of,
    resolve_missing,
    split_code,
)
from bursar.engines.slurm.driven.request import (
    HetComponent,
    JobRequest,
    components_of,
    gres_of,
)
from bursar.engines.slurm.driven.script import ScriptContext, make_scripts, plain_command
from bursar.engines.slurm.driven.submit import rest_properties, sbatch_options
from bursar.engines.status_file import StatusFile
from bursar.model.errors import EngineFault
from bursar.model.jobs.attempt import ShareUse, Task
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import StartOrder
from tests.conformance.engine_harness import until
from tests.conformance.engine_orders import order, ref, tasks_on


def prepare(folders: AttemptFolders, wanted: StartOrder) -> tuple[SlurmAttemptFolder, str]:
    """The attempt's folder with its files, and its batch script."""
    folder = folders.of(wanted.ref)
    context = ScriptContext(
        folder=folder.path,
        key=folder.key,
        messages=folders.messages.path,
        bundles="/nowhere",
        path=os.environ["PATH"],
        addresses={},
    )
    nodes = tuple(dict.fromkeys(task.node for task in wanted.placement.tasks))
    scripts = make_scripts(wanted, context, (nodes,))
    folder.create(len(nodes))
    for name, text in scripts.files.items():
        folder.write(name, text)
    return folder, scripts.batch


@pytest.fixture
def folders(tmp_path: Path) -> AttemptFolders:
    made = AttemptFolders(tmp_path / "it's here")
    made.prepare()
    return made


def start(script: str, job: str = "77") -> subprocess.Popen[str]:
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": job, "SLURMD_NODENAME": "node-0"}
    return subprocess.Popen(["bash", "-c", script], env=env, stdin=subprocess.DEVNULL, text=True)


def run(script: str, job: str = "77") -> int:
    return start(script, job).wait(30)


# -- one task --------------------------------------------------------------------------------------


def test_a_script_started_twice_runs_once(folders: AttemptFolders) -> None:
    folder, script = prepare(folders, order("j-1", 'echo "$RANK of $WORLD_SIZE"; exit 3'))
    assert (run(script), run(script, "78")) == (3, 0)
    assert Path(folder.file("task-0.out")).read_text(encoding="utf-8") == "0 of 1\n"
    assert folder.claimed_by == "77" and folder.record().began_at_ms is not None
    end = folder.record().end
    assert end is not None and (end.code, end.stop_signal, end.detail) == (3, "", "")
    assert folders.take_messages() == [ref("j-1")] and folders.take_messages() == []


def test_a_script_stopped_before_it_began_runs_nothing(folders: AttemptFolders) -> None:
    folder, script = prepare(folders, order("j-1", "echo ran"))
    assert folder.claim() and not folder.claim()
    assert run(script) == 0
    assert folder.is_blocked and not folder.has("task-0.out")
    other, script = prepare(folders, order("j-2", "echo ran"))
    other.write_record("stop", {})
    assert run(script) == 1
    end = other.record().end
    assert end is not None and "before its tasks were started" in end.detail


@pytest.mark.parametrize(
    "remaining", ["", "scratch-0/file", "scratch-0/deep/file", "scratch/0/file"]
)
def test_scratch_folders_are_removed_with_their_contents(
    folders: AttemptFolders, remaining: str
) -> None:
    folder, _ = prepare(folders, order("j-1", "true"))
    if remaining:
        os.makedirs(os.path.dirname(folder.file(remaining)), exist_ok=True)
        folder.write(remaining, "something")
    folder.remove_from_index()
    assert not {"scratch", "scratch-0"} & set(os.listdir(folder.path)) and folder.has("work-0")


def test_a_script_that_cannot_write_exits_with_its_own_code(folders: AttemptFolders) -> None:
    folder, script = prepare(folders, order("j-1", "echo ran"))
    os.rename(folder.path, f"{folder.path}.gone")
    assert run(script) == 75


def test_a_signal_reaches_the_program_and_is_recorded(folders: AttemptFolders) -> None:
    recipe = RunSpec(run="trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done")
    folder, script = prepare(folders, order("j-1", recipe))
    process = start(script)
    out = Path(folder.file("task-0.out"))
    until("the trap is set", lambda: out.exists() and "ready" in out.read_text())
    process.send_signal(signal.SIGUSR1)
    assert process.wait(30) == 5
    end = folder.record().end
    assert end is not None and (end.code, end.stop_signal) == (5, "USR1")


SAVES = """import signal, sys, time
def stop(*_):
    time.sleep(0.3)
    open(sys.argv[1], "w").write("saved")
    sys.exit(85)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("{python} {program} {file}", (85, None)),
        ("cd . && {python} {program} {file}; true", (None, signal.SIGTERM)),
    ],
)
def test_a_program_can_use_its_grace_period_after_its_shell_is_gone(
    line: str, codes: tuple[int | None, int | None], folders: AttemptFolders, tmp_path: Path
) -> None:
    program, file = tmp_path / "program.py", tmp_path / "file"
    program.write_text(SAVES, encoding="utf-8")
    text = line.format(python=sys.executable, program=program, file=file)
    folder, script = prepare(folders, order("j-1", text))
    process = start(script)
    out = Path(folder.file("task-0.out"))
    until("it is ready", lambda: out.exists() and "ready" in out.read_text())
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert file.read_text(encoding="utf-8") == "saved"
    end = folder.record().end
    assert end is not None and end.stop_signal == "TERM" and split_code(end.code) == codes


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("python train.py --lr=0.1 data/part-0.bin\n", 4),
        ("true", 1),
        ("./run_all  10%", 2),
        ("echo $HOME", 0),
        ("LR=1 python train.py", 0),
        ("python train.py\npython test.py", 0),
        ("python train.py && echo done", 0),
        ("python 'train it.py'", 0),
        ("cd data", 0),
        ("time python train.py", 0),
        ("exec python train.py", 0),
        ("%1", 0),
        ("~/train", 0),
        ("ls *.py", 0),
        ("", 0),
    ],
)
def test_only_a_command_without_shell_syntax_is_started_without_a_shell(
    script: str, words: int
) -> None:
    assert len(plain_command(script, "/bin/bash")) == words
    assert plain_command(script, "/usr/bin/fish") == ()


def test_a_command_with_the_name_of_a_function_does_not_call_it(folders: AttemptFolders) -> None:
    folder, script = prepare(folders, order("j-1", "finish 0 well"))
    assert run(script) == 127
    end = folder.record().end
    assert end is not None and (end.code, end.detail) == (127, "")


def test_variables_that_bash_needs_are_not_passed_to_the_program(folders: AttemptFolders) -> None:
    folder, script = prepare(folders, order("j-1", "printenv"))
    context = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "77", "HOME": "/", "SHELL": "/bin/bash"}
    subprocess.run(["bash", "-c", script], env=context, check=True, timeout=30)
    shown = Path(folder.file("task-0.out")).read_text(encoding="utf-8").splitlines()
    assert f"HOME={folder.file('work-0')}" in shown
    assert [line for line in shown if line.startswith("SHELL=")] == []


def test_secrets_are_removed_before_the_program_runs(folders: AttemptFolders) -> None:
    recipe = RunSpec(
        run='test ! -e "$BURSAR_SAVED_FILE/../secrets" && echo "$TOKEN$PLAIN"',
        secrets={"TOKEN": 'it\'s "$HOME" `id`\n'},
        envs={"PLAIN": "a 'b' $c"},
    )
    folder, script = prepare(folders, order("j-1", recipe))
    assert run(script) == 0
    assert not folder.has("secrets") and "`id`" not in script
    text = Path(folder.file("task-0.out")).read_text(encoding="utf-8")
    assert text == "it's \"$HOME\" `id`\na 'b' $c\n"


def test_gang_scripts_are_valid_bash(folders: AttemptFolders) -> None:
    tasks = [replace(tasks_on("a")[0], count=2, gpus=(3, 1)), *tasks_on("b")]
    wanted = order("j-1", RunSpec(run="true", setup="true"), tasks=tasks)
    folder, script = prepare(folders, wanted)
    node = Path(folder.file("node.sh")).read_text(encoding="utf-8")
    for text in (script, node):
        checked = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")
    assert "own_devices 1\n" in node and "own_devices 0\n" in node


# -- requests --------------------------------------------------------------------------------------


def node(gres: str) -> SlurmNode:
    return SlurmNode(
        name="n",
        cpus=8,
        memory_mib=1,
        disk_mib=0,
        gres=parse_gres(gres),
        partitions=(),
        states=frozenset({"IDLE"}),
    )


@pytest.mark.parametrize(
    ("gres", "wanted"),
    [
        ("gpu:t4:4", "gpu:t4:2"),
        ("gpu:4", "gpu:2"),
        ("gpu:t4:2,gpu:a100:2", "gpu:2"),
        ("gpu:t4-0:1,gpu:t4-1:1,gpu:t4-2:1", "gpu:t4-0:1,gpu:t4-2:1"),
    ],
)
def test_gpus_are_requested_as_exactly_as_slurm_allows(gres: str, wanted: str) -> None:
    task = Task(group="main", node="n", count=1, gpus=(2, 0))
    assert gres_of([task], node(gres)) == wanted


def test_shares_are_rounded_up_to_shards_and_need_shards() -> None:
    task = Task(
        group="main", node="n", count=1, shares=(ShareUse(gpu=0, percent=30, memory_mib=0),)
    )
    assert gres_of([task], node("gpu:t4:2,shard:8")) == "shard:2"
    with pytest.raises(EngineFault, match="no shards on n"):
        gres_of([task], node("gpu:t4:2"))


def test_nodes_with_the_same_request_are_one_component_and_the_first_leads() -> None:
    tasks = [
        Task(group="x", node="b", count=1, cpu_milli=1_500),
        Task(group="y", node="a", count=1, gpus=(0,)),
        Task(group="y", node="c", count=2, cpu_milli=2_000),
    ]
    parts = components_of(order("j-1", "true", tasks=tasks), {})
    assert [(part.nodes, part.cpus, part.gres) for part in parts] == [
        (("b", "c"), 2, ""),
        (("a",), 1, "gpu:1"),
    ]


def test_rest_and_sbatch_make_the_same_request() -> None:
    part = HetComponent(nodes=("a", "b"), cpus=3, memory_mib=500, gres="gpu:t4:1")
    request = JobRequest(
        name="n", comment="c", components=(part,), minutes=9, partition="p", qos="q"
    )
    assert from_text(JobRequest, to_text(request)) == request
    rest, words = rest_properties(request, part), list(sbatch_options(request, part))
    assert (rest["nodelist"], rest["nodes"], rest["cpus_per_task"]) == ("a,b", [2, 2], 3)
    assert (rest["no_requeue"], rest["time_limit"], rest["memory_per_node"]) == (True, 9, 500)
    for word in ("--nodelist=a,b", "--cpus-per-task=3", "--no-requeue", "--time=9", "--mem=500"):
        assert word in words
    assert "--qos=q" in words and "account" not in rest


# -- missing attempts ------------------------------------------------------------------------------

GONE = MissingContext(missing_seconds=100.0, timeout_seconds=15.0, ids_were_reused=False)
JUST_NOW = replace(GONE, missing_seconds=0.5)


def attempt(folders: AttemptFolders, *, ran: bool) -> TrackedAttempt:
    folder = folders.of(ref("j-1"))
    folder.create(1)
    if ran:
        folder.write("claim", "77\n")
    return tracked(folder, ids=["77"], submissions=1)


def tracked(folder: SlurmAttemptFolder, **more: Any) -> TrackedAttempt:
    status = StatusFile(folder.file("saved"), ref("j-1"))
    return TrackedAttempt(ref=ref("j-1"), folder=folder, status=status, **more)


def test_a_forgotten_attempt_that_never_ran_is_submitted_again(folders: AttemptFolders) -> None:
    resolution = resolve_missing(attempt(folders, ran=False), None, JUST_NOW)
    assert resolution.submit_again and resolution.ended is None
    often = attempt(folders, ran=False)
    often.submissions = MOST_SUBMISSIONS
    assert resolve_missing(often, None, GONE).ended is not None


def test_a_forgotten_attempt_that_ran_is_lost_after_a_timeout(folders: AttemptFolders) -> None:
    one = attempt(folders, ran=True)
    assert resolve_missing(one, None, JUST_NOW) == resolve_missing(
        one, SlurmJobState(state="RUNNING", code=0, signal=0), JUST_NOW
    )
    lost = resolve_missing(one, None, GONE).ended
    assert lost is not None and lost.code is None and "lost" in lost.detail
    assert not resolve_missing(one, None, GONE).submit_again


def test_only_the_script_can_report_success(folders: AttemptFolders) -> None:
    done = SlurmJobState(state="COMPLETED", code=0, signal=0)
    one = attempt(folders, ran=True)
    early = replace(GONE, missing_seconds=LATE_SECONDS / 2)
    assert resolve_missing(one, done, early).ended is None
    late = resolve_missing(one, done, GONE).ended
    assert late is not None and late.code is None and "lost" in late.detail


def test_a_lost_node_is_reported_and_attempts_that_had_not_begun_are_submitted_again(
    folders: AttemptFolders,
) -> None:
    state = SlurmJobState(state="NODE_FAIL", code=0, signal=0, nodes=("t4-1",))
    assert resolve_missing(attempt(folders, ran=False), state, GONE).submit_again
    resolution = resolve_missing(attempt(folders, ran=True), state, GONE)
    assert resolution.node_lost and resolution.ended is not None


def test_a_cancelled_job_is_submitted_again_only_when_slurm_confuses_jobs(
    folders: AttemptFolders,
) -> None:
    state = SlurmJobState(state="CANCELLED", code=0, signal=0)
    one = attempt(folders, ran=False)
    ended = resolve_missing(one, state, GONE).ended
    assert ended is not None and "not by Bursar" in ended.detail
    assert resolve_missing(one, state, replace(GONE, ids_were_reused=True)).submit_again
    assert resolve_missing(one, replace(state, nodes=("t4-1",)), GONE).submit_again


def test_an_ordered_end_is_reported_as_ordered(folders: AttemptFolders) -> None:
    one = attempt(folders, ran=True)
    one.stop = StopState(grace_seconds=30, kill_at=0.0, signal_sent=True)
    record = EndRecord(at_ms=1, code=143, stop_signal="TERM", detail="")
    how = exit_of(record, one, None)
    assert (how.code, how.signal, how.detail) == (None, 15, "stopped as ordered, ended within 30 s")
    one.stop.kill_sent = True
    killed = resolve_missing(one, SlurmJobState(state="FAILED", code=0, signal=9), GONE).ended
    assert (
        killed is not None
        and killed.signal == 9
        and "killed after a grace of 30 s" in killed.detail
    )


def test_a_cancellation_that_the_script_did_not_record_is_taken_from_slurm(
    folders: AttemptFolders,
) -> None:
    record = EndRecord(at_ms=1, code=143, stop_signal="", detail="")
    attempt = tracked(folders.of(ref("j-1")))
    how = exit_of(record, attempt, SlurmJobState(state="CANCELLED", code=0, signal=15))
    assert how.signal == signal.SIGTERM and "cancelled in Slurm, not by Bursar" in how.detail
