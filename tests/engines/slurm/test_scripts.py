"""The scripts that nodes run, run here by bash without Slurm; and what is judged from what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

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
    request_from,
)
from bursar.engines.slurm.driven.script import ScriptContext, make_scripts, plain_command
from bursar.engines.slurm.driven.submit import rest_properties, sbatch_options
from bursar.model.errors import EngineFault
from bursar.model.jobs.attempt import ShareUse, Task
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import StartOrder
from tests.conformance.engine_harness import until
from tests.conformance.engine_orders import order, ref, tasks_on


def laid_out(folders: AttemptFolders, wanted: StartOrder) -> tuple[SlurmAttemptFolder, str]:
    """The attempt's folder with its files, and its batch script."""
    folder = folders.of(wanted.ref)
    around = ScriptContext(
        folder=folder.path,
        key=folder.key,
        messages=folders.messages.path,
        bundles="/nowhere",
        path=os.environ["PATH"],
        addresses={},
    )
    nodes = tuple(dict.fromkeys(task.node for task in wanted.placement.tasks))
    scripts = make_scripts(wanted, around, (nodes,))
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


def test_a_script_that_is_started_twice_runs_once(folders: AttemptFolders) -> None:
    folder, script = laid_out(folders, order("j-1", 'echo "$RANK of $WORLD_SIZE"; exit 3'))
    assert (run(script), run(script, "78")) == (3, 0)
    assert Path(folder.file("task-0.out")).read_text(encoding="utf-8") == "0 of 1\n"
    assert folder.claimed_by == "77" and folder.record().began_at_ms is not None
    end = folder.record().end
    assert end is not None and (end.code, end.stop_signal, end.detail) == (3, "", "")
    assert folders.take_messages() == [ref("j-1")] and folders.take_messages() == []


def test_a_script_that_was_stopped_before_it_began_runs_nothing(folders: AttemptFolders) -> None:
    folder, script = laid_out(folders, order("j-1", "echo ran"))
    assert folder.claim() and not folder.claim()
    assert run(script) == 0
    assert folder.is_blocked and not folder.has("task-0.out")
    other, script = laid_out(folders, order("j-2", "echo ran"))
    other.write_record("stop", {})
    assert run(script) == 1
    end = other.record().end
    assert end is not None and "before its tasks were started" in end.detail


@pytest.mark.parametrize("left", ["", "scratch-0/file", "scratch-0/deep/file", "scratch/0/file"])
def test_scratch_folders_go_with_whatever_is_in_them(folders: AttemptFolders, left: str) -> None:
    folder, _ = laid_out(folders, order("j-1", "true"))
    if left:
        os.makedirs(os.path.dirname(folder.file(left)), exist_ok=True)
        folder.write(left, "something")
    folder.remove_from_index()
    assert not {"scratch", "scratch-0"} & set(os.listdir(folder.path)) and folder.has("work-0")


def test_a_script_that_cannot_write_says_so(folders: AttemptFolders) -> None:
    folder, script = laid_out(folders, order("j-1", "echo ran"))
    os.rename(folder.path, f"{folder.path}.gone")
    assert run(script) == 75


def test_a_signal_reaches_the_program_and_is_told(folders: AttemptFolders) -> None:
    recipe = RunSpec(run="trap 'exit 5' USR1; echo ready; while :; do sleep 0.05; done")
    folder, script = laid_out(folders, order("j-1", recipe))
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
def test_a_program_may_use_its_grace_though_its_shell_is_gone(
    line: str, codes: tuple[int | None, int | None], folders: AttemptFolders, tmp_path: Path
) -> None:
    program, file = tmp_path / "program.py", tmp_path / "file"
    program.write_text(SAVES, encoding="utf-8")
    text = line.format(python=sys.executable, program=program, file=file)
    folder, script = laid_out(folders, order("j-1", text))
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
def test_only_what_every_shell_reads_alike_is_started_without_one(script: str, words: int) -> None:
    assert len(plain_command(script, "/bin/bash")) == words
    assert plain_command(script, "/usr/bin/fish") == ()


def test_a_command_with_the_name_of_a_function_is_not_taken_for_it(folders: AttemptFolders) -> None:
    folder, script = laid_out(folders, order("j-1", "finish 0 well"))
    assert run(script) == 127
    end = folder.record().end
    assert end is not None and (end.code, end.detail) == (127, "")


def test_what_bash_needs_to_start_is_not_passed_on(folders: AttemptFolders) -> None:
    folder, script = laid_out(folders, order("j-1", "printenv"))
    around = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "77", "HOME": "/", "SHELL": "/bin/bash"}
    subprocess.run(["bash", "-c", script], env=around, check=True, timeout=30)
    shown = Path(folder.file("task-0.out")).read_text(encoding="utf-8").splitlines()
    assert f"HOME={folder.file('work-0')}" in shown
    assert [line for line in shown if line.startswith("SHELL=")] == []


def test_secrets_are_gone_before_the_program_runs(folders: AttemptFolders) -> None:
    recipe = RunSpec(
        run='test ! -e "$BURSAR_SAVED_FILE/../secrets" && echo "$TOKEN$PLAIN"',
        secrets={"TOKEN": 'it\'s "$HOME" `id`\n'},
        envs={"PLAIN": "a 'b' $c"},
    )
    folder, script = laid_out(folders, order("j-1", recipe))
    assert run(script) == 0
    assert not folder.has("secrets") and "`id`" not in script
    text = Path(folder.file("task-0.out")).read_text(encoding="utf-8")
    assert text == "it's \"$HOME\" `id`\na 'b' $c\n"


def test_gang_scripts_are_right_bash(folders: AttemptFolders) -> None:
    tasks = [replace(tasks_on("a")[0], count=2, gpus=(3, 1)), *tasks_on("b")]
    wanted = order("j-1", RunSpec(run="true", setup="true"), tasks=tasks)
    folder, script = laid_out(folders, wanted)
    node = Path(folder.file("node.sh")).read_text(encoding="utf-8")
    for text in (script, node):
        checked = subprocess.run(
            ["bash", "-n"], input=text, text=True, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")
    assert "own_devices 1\n" in node and "own_devices 0\n" in node


# -- what is asked for -----------------------------------------------------------------------------


def node(gres: str) -> SlurmNode:
    return SlurmNode(
        name="n",
        cpus=8,
        memory_mib=1,
        disk_mib=0,
        gres=parse_gres(gres),
        features=(),
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
def test_gpus_are_asked_for_as_exactly_as_slurm_allows(gres: str, wanted: str) -> None:
    task = Task(group="main", node="n", count=1, gpus=(2, 0))
    assert gres_of([task], node(gres)) == wanted


def test_shares_are_rounded_up_to_shards_and_need_some() -> None:
    task = Task(
        group="main", node="n", count=1, shares=(ShareUse(gpu=0, percent=30, memory_mib=0),)
    )
    assert gres_of([task], node("gpu:t4:2,shard:8")) == "shard:2"
    with pytest.raises(EngineFault, match="no shards on n"):
        gres_of([task], node("gpu:t4:2"))


def test_nodes_alike_are_one_part_and_the_first_leads() -> None:
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


def test_both_ways_in_ask_for_the_same() -> None:
    part = HetComponent(nodes=("a", "b"), cpus=3, memory_mib=500, gres="gpu:t4:1")
    request = JobRequest(
        name="n", comment="c", components=(part,), minutes=9, partition="p", qos="q"
    )
    assert request_from(request.as_record()) == request
    rest, words = rest_properties(request, part), list(sbatch_options(request, part))
    assert (rest["nodelist"], rest["nodes"], rest["cpus_per_task"]) == ("a,b", [2, 2], 3)
    assert (rest["no_requeue"], rest["time_limit"], rest["memory_per_node"]) == (True, 9, 500)
    for word in ("--nodelist=a,b", "--cpus-per-task=3", "--no-requeue", "--time=9", "--mem=500"):
        assert word in words
    assert "--qos=q" in words and "account" not in rest


# -- what is judged --------------------------------------------------------------------------------

GONE = MissingContext(missing_seconds=100.0, timeout_seconds=15.0, ids_were_reused=False)
JUST_NOW = replace(GONE, missing_seconds=0.5)


def attempt(folders: AttemptFolders, *, ran: bool) -> TrackedAttempt:
    folder = folders.of(ref("j-1"))
    folder.create(1)
    if ran:
        folder.write("claim", "77\n")
    return TrackedAttempt(ref=ref("j-1"), folder=folder, ids=["77"], submissions=1)


def test_what_never_ran_and_was_forgotten_is_sent_again(folders: AttemptFolders) -> None:
    found = resolve_missing(attempt(folders, ran=False), None, JUST_NOW)
    assert found.submit_again and found.ended is None
    often = attempt(folders, ran=False)
    often.submissions = MOST_SUBMISSIONS
    assert resolve_missing(often, None, GONE).ended is not None


def test_what_ran_and_was_forgotten_is_given_time_and_then_lost(folders: AttemptFolders) -> None:
    one = attempt(folders, ran=True)
    assert resolve_missing(one, None, JUST_NOW) == resolve_missing(
        one, SlurmJobState(state="RUNNING", code=0, signal=0), JUST_NOW
    )
    lost = resolve_missing(one, None, GONE).ended
    assert lost is not None and lost.code is None and "lost" in lost.detail
    assert not resolve_missing(one, None, GONE).submit_again


def test_success_is_only_what_the_script_says(folders: AttemptFolders) -> None:
    done = SlurmJobState(state="COMPLETED", code=0, signal=0)
    one = attempt(folders, ran=True)
    early = replace(GONE, missing_seconds=LATE_SECONDS / 2)
    assert resolve_missing(one, done, early).ended is None
    late = resolve_missing(one, done, GONE).ended
    assert late is not None and late.code is None and "lost" in late.detail


def test_a_lost_node_is_told_and_what_had_not_begun_is_sent_again(folders: AttemptFolders) -> None:
    fate = SlurmJobState(state="NODE_FAIL", code=0, signal=0, nodes=("t4-1",))
    assert resolve_missing(attempt(folders, ran=False), fate, GONE).submit_again
    found = resolve_missing(attempt(folders, ran=True), fate, GONE)
    assert found.node_lost and found.ended is not None


def test_a_cancelled_job_is_sent_again_only_when_slurm_confuses_jobs(
    folders: AttemptFolders,
) -> None:
    fate = SlurmJobState(state="CANCELLED", code=0, signal=0)
    one = attempt(folders, ran=False)
    ended = resolve_missing(one, fate, GONE).ended
    assert ended is not None and "not by Bursar" in ended.detail
    assert resolve_missing(one, fate, replace(GONE, ids_were_reused=True)).submit_again
    assert resolve_missing(one, replace(fate, nodes=("t4-1",)), GONE).submit_again


def test_the_end_that_was_ordered_says_so(folders: AttemptFolders) -> None:
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


def test_a_cancellation_that_the_script_did_not_hear_is_told_by_slurm(
    folders: AttemptFolders,
) -> None:
    record = EndRecord(at_ms=1, code=143, stop_signal="", detail="")
    attempt = TrackedAttempt(ref=ref("j-1"), folder=folders.of(ref("j-1")))
    how = exit_of(record, attempt, SlurmJobState(state="CANCELLED", code=0, signal=15))
    assert how.signal == signal.SIGTERM and "cancelled in Slurm, not by Bursar" in how.detail
