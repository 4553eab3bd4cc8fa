"""Jobs on a real control plane: submitted, followed, explained, cancelled, retried."""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.children import with_ctrl_c
from tests.cli.commands import BURSAR, environment
from tests.cli.live import Live, Person, live

JOB_ID = re.compile(r"j-[a-z2-7]{10}")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as one:
        yield one


@pytest.fixture
def ada(here: Live) -> Person:
    return here.ada


@pytest.fixture
def blocker(here: Live) -> Iterator[str]:
    """A job that holds every GPU, so that others wait."""
    job = here.bob.submit("--gpus", "4", "--nodes", "2", "--name", "blocker", "--", "sleep", "600")
    assert here.bob.run("status", job, "--wait", "--wait-seconds", "0.1").code == 101
    yield job
    assert here.bob.run("cancel", job).code == 0
    assert here.bob.run("status", job, "--wait").code == 103


def test_a_command_is_a_job_and_its_output_follows(ada: Person) -> None:
    ran = ada.run(
        "submit", "--gpus", "2", "--follow", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"
    )
    assert ran.code == 0
    job, output = ran.out.splitlines()
    assert JOB_ID.fullmatch(job)
    assert output == "0,1"
    assert f"{job} succeeded." in ran.err


def test_a_file_is_a_job_and_options_change_it(ada: Person, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "say.py").write_text(
        "import os; print(os.environ['WORD'], open('a.txt').read())"
    )
    (tmp_path / "a.txt").write_text("file")
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: say\nqueue: vision\nworkdir: src\nfile_mounts: {a.txt: a.txt}\n"
        "envs: {WORD: no}\nrun: python3 say.py\n"
    )
    ran = ada.run("launch", path, "--name", "other", "--env", "WORD=yes", "--follow")
    assert (ran.code, ran.out.splitlines()[1]) == (0, "yes file"), ran.err
    job = ran.out.splitlines()[0]
    assert ada.run("status", job, "--json").json()["name"] == "other"


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        ("exit 0", ["--wait"], 0),
        ("exit 7", ["--wait"], 100),
        ("exit 7", ["--exit-code"], 7),
        ("kill -KILL $$", ["--exit-code"], 137),
        ("sleep 60", ["--wait-seconds", "0.2"], 101),
    ],
)
def test_the_exit_code_is_the_outcome_of_the_job(
    ada: Person, command: str, options: list[str], code: int
) -> None:
    ran = ada.run("submit", *options, "--", "sh", "-c", command)
    assert ran.code == code, ran.err
    if code == 101:
        assert "the timeout does not stop it" in ran.err
        assert ada.run("cancel", ran.out.strip(), "--json").code == 0


def test_an_array_is_several_jobs_under_one_id(ada: Person, tmp_path: Path) -> None:
    path = tmp_path / "array.yaml"
    path.write_text("array: 3\nrun: echo I am $BURSAR_ARRAY_INDEX; exit $BURSAR_ARRAY_INDEX\n")
    ran = ada.run("submit", path, "--exit-code")
    assert ran.code == 1, ran.err
    array = ran.out.strip()
    assert f"an array of 3 jobs: {array}[0] to {array}[2]." in ran.err
    assert f"{array}[1] failed (one of 3 jobs). Exit 1:0." in ran.err
    assert ada.run("status", f"{array}_2", "--json").json()["id"] == f"{array}[2]"
    shown = ada.run("status", array)
    assert "array       3 jobs: 1 succeeded, 2 failed" in shown.out
    assert f"member      {array}[0]: succeeded" in shown.out
    assert "is an array of 3 jobs: 1 succeeded, 2 failed." in ada.run("why", array).out
    followed = ada.run("logs", "-f", array)
    assert followed.out.splitlines() == ["I am 0", "I am 1", "I am 2"]
    assert f"==> {array}[1] <==\nI am 1\n" in ada.run("logs", array, "--stream", "stdout").out
    again = ada.run("retry", array, "--wait")
    assert again.code == 100 and again.out.strip() != array
    ended = ada.run("cancel", again.out.strip(), "-o", "json")
    assert ended.json()[0]["state"] == "failed"


def test_a_cancelled_job_has_its_exit_code(ada: Person) -> None:
    job = ada.submit("--", "sleep", "600")
    ran = ada.run("cancel", job)
    assert ran.code == 0 and job in ran.out
    assert ada.run("status", job, "--wait").code == 103
    assert ada.run("cancel", job).code in (0, 1)


def test_a_job_is_repeated(ada: Person) -> None:
    first = ada.submit("--wait", "--", "echo", "again")
    ran = ada.run("retry", first, "--follow")
    assert ran.code == 0
    assert ran.out.splitlines()[0] != first and ran.out.splitlines()[1:] == ["again"]


def test_an_sbatch_script_is_a_job(ada: Person, tmp_path: Path) -> None:
    script = tmp_path / "x.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH --job-name=slurmy\n#SBATCH --gres=gpu:1\n#SBATCH --mail-type=END\n"
        "echo from $SLURM_JOB_NAME\n"
    )
    ran = ada.run("submit", "--from-slurm", script, "--follow")
    assert (ran.code, ran.out.splitlines()[1]) == (0, "from slurmy"), ran.err
    assert "x.sbatch:4: --mail-type=END is not converted" in ran.err


def test_a_waiting_job_is_explained(ada: Person, blocker: str) -> None:
    job = ada.submit("--gpus", "2", "--", "true")
    queue = ada.run("queue", "--waiting", "--json").json()
    [waiting] = [row for row in queue if row["id"] == job]
    assert waiting["position"] >= 1 and "2 GPUs" in waiting["reason"]
    table = ada.run("ps").out
    assert re.search(rf"^{job} +vision .* queued +\d+ .*\(t4: needs capacity", table, re.M), table
    why = ada.run("why", job)
    assert f"{job} " in why.out and "Why: " in why.out and "When: " in why.out
    assert blocker not in why.out
    assert ada.run("why", job, "--json").json()["state"] == "queued"
    planned = ada.run("plan", "--gpus", "T4:2", "--max-hours", "6", "--", "true")
    assert planned.code == 0
    assert "waits     t4: needs capacity for 1 task with 2 GPUs," in planned.out
    assert re.search(r"^starts +(between|about|no start)", planned.out, re.M), planned.out
    assert ada.run("cancel", job).code == 0


def test_a_plan_prints_where_when_and_at_what_cost(ada: Person) -> None:
    ran = ada.run("plan", "--gpus", "T4:2", "--max-hours", "6", "--", "true")
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == ["feasible  yes", "starts    now"]
    assert re.search(r"^runs on   t4 \(t4-16gb/owned\): n[12]$", ran.out, re.M)
    assert "costs     $0.70/h x <= 6 h = <= $4.20" in ran.out
    endless = ada.run("plan", "--gpus", "1", "--", "true").out
    assert "costs     $0.35/h, no limit: it has no maximum run time (max_hours)" in endless
    assert ada.run("plan", "--gpus", "1", "--json", "--", "true").json()["feasible"] is True


def test_a_plan_prints_why_a_job_can_never_run(ada: Person) -> None:
    ran = ada.run("plan", "--gpus", "9", "--", "true")
    assert (ran.code, ran.out.splitlines()[0]) == (6, "feasible  no")
    assert "nodes have 4 GPUs, a task wants 9" in ran.out
    assert ada.run("submit", "--gpus", "9", "--", "true").code == 6
    assert ada.run("plan", "--queue", "visoin", "--", "true").code == 2
    assert ada.run("submit", "--queue", "vision").code == 2
    assert ada.run("submit", "--env", "NOT_SET_HERE", "--", "true").code == 2


def test_the_detailed_exit_code_is_whether_a_job_would_start_now(ada: Person) -> None:
    words = ("plan", "--detailed-exitcode", "--gpus", "T4:4")
    assert ada.run(*words, "--", "true").code == 0
    running = ada.run("submit", "-y", "--nodes", "2", "--gpus", "T4:4", "--", "sleep", "600")
    job = running.out.strip()
    assert ada.run("plan", "--gpus", "T4:4", "--", "true").code == 0
    assert ada.run(*words, "--", "true").code == 1
    assert ada.run("plan", "--detailed-exitcode", "--gpus", "9", "--", "true").code == 6
    ada.run("cancel", job)
    ada.run("status", job, "--wait")


def test_a_plan_warns_of_a_ceiling(ada: Person) -> None:
    text = ada.run("plan", "--gpus", "1", "--max-cost", "0.70", "--", "true").out
    assert "warning   max_cost of $0.70 pays for 2 h at $0.35 an hour" in text


def test_an_error_has_file_line_and_column(ada: Person, tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("run: x\nresources:\n  accelerator: T4:1\n")
    ran = ada.run("submit", path, "--queue", "vision")
    assert (ran.code, ran.out) == (2, "")
    error, fix = ran.err.splitlines()
    assert error.startswith(f"error: {path}:3:3: ") and "'accelerator'" in error
    assert "'accelerators'" in fix


def test_lists_have_every_form(ada: Person) -> None:
    job = ada.submit("--name", "formal", "--wait", "--", "true")
    formal = ("status", "--name", "formal")
    plain = ada.run(*formal, "-o", "json").json()
    assert [row["id"] for row in plain] == [job]
    assert yaml.safe_load(ada.run(*formal, "-o", "yaml").out) == plain
    [row] = csv.DictReader(io.StringIO(ada.run(*formal, "-o", "csv").out))
    assert (row["id"], row["exit_code"], row["labels"]) == (job, "0", "{}")
    assert "ATTEMPTS" in ada.run(*formal, "-o", "wide").out
    assert "ATTEMPTS" not in ada.run(*formal).out
    assert len(ada.run("status", "--limit", "1", "--json").json()) == 1
    assert ada.run("submit", "--wait", "--", "false").code == 100
    only = ada.run("status", "--state", "failed", "--mine", "--json").json()
    assert {row["state"] for row in only} == {"failed"}


def test_output_cannot_affect_the_terminal(ada: Person) -> None:
    nasty = r"printf '\033[31mred\033[0m \033]52;c;YQ==\007 \033]0;title\007 bar\rdone\n'"
    job = ada.submit("--wait", "--", "sh", "-c", nasty)
    shown = ada.run("logs", job).out
    assert "\x1b" not in shown and "\x07" not in shown
    assert shown.splitlines()[0].startswith("red \\x1b]52;c;YQ==\\x07")
    assert "\x1b]52" in ada.run("logs", "--raw", job).out
    assert ada.run("logs", "-f", job).out == shown


def test_parts_of_the_output(ada: Person) -> None:
    job = ada.submit("--wait", "--", "sh", "-c", "echo a; echo b; echo c; echo bad >&2")
    assert ada.run("logs", job, "--stream", "stdout", "--tail", "1").out == "c\n"
    assert ada.run("logs", job, "--stream", "stderr").out == "bad\n"


def test_a_job_of_another_tenant_is_not_visible(here: Live) -> None:
    job = here.bob.submit("--wait", "--", "true")
    for command in ("status", "why", "logs", "cancel", "retry"):
        hidden = here.ada.run(command, job)
        missing = here.ada.run(command, "j-aaaaaaaaaa")
        assert hidden.code == missing.code == 3, command
        assert hidden.err.replace(job, "X") == missing.err.replace("j-aaaaaaaaaa", "X")
    assert here.ada.run("status", job, "--wait").code == 102
    assert job not in here.ada.run("status", "--json").out


def test_cancelling_several_jobs_needs_a_confirmation(ada: Person) -> None:
    jobs = [ada.submit("--", "sleep", "600") for _ in range(2)]
    refused = ada.run("cancel", "--mine")
    assert refused.code == 2 and "not a terminal" in refused.err
    refused = ada.run("cancel", *jobs, types="n\n")
    assert refused.code == 1 and "cancelled nothing" in refused.err
    assert ada.run("cancel", *jobs, types="y\n").code == 0
    assert ada.run("cancel", "--mine", "-y").code == 0
    assert all(ada.run("status", job, "--wait").code == 103 for job in jobs)
    assert ada.run("cancel").code == 2


def test_at_a_terminal_the_price_comes_before_the_question(ada: Person) -> None:
    no = ada.run("submit", "--gpus", "1", "--max-hours", "2", "--", "true", types="n\n")
    assert (no.code, no.out) == (1, "")
    assert "costs     $0.35/h x <= 2 h = <= $0.70" in no.err and "submit the job? [Y/n]" in no.err
    yes = ada.run("submit", "--gpus", "1", "--", "true", types="\n")
    assert yes.code == 0 and JOB_ID.match(yes.out)


def test_colours_are_for_terminals_that_want_them(ada: Person) -> None:
    ada.submit("--", "true")
    assert "\x1b[" not in ada.run("status").out
    assert "\x1b[" in ada.run("status", types="").out
    assert "\x1b[" not in ada.run("status", "--no-color", types="").out
    quiet = Person(ada.server, ada.token, ada.state, ada.folder, {"NO_COLOR": "1"})
    assert "\x1b[" not in quiet.run("status", types="").out


def test_ids_are_never_truncated(ada: Person) -> None:
    job = ada.submit("--name", "n" * 100, "--wait", "--", "true")
    narrow = Person(ada.server, ada.token, ada.state, ada.folder, {"COLUMNS": "40"})
    assert job in narrow.run("status", "--limit", "1", types="").out


def test_secrets_come_from_the_environment_and_are_not_shown(ada: Person) -> None:
    rich = Person(ada.server, ada.token, ada.state, ada.folder, {"API_KEY": "hush-hush"})
    job = rich.submit("--secret", "API_KEY", "--wait", "--", "sh", "-c", "echo ${#API_KEY}")
    assert ada.run("logs", job).out == "9\n"
    assert "hush-hush" not in ada.run("status", job, "--json").out
    missing = ada.run("submit", "--secret", "NO_SUCH", "--", "true")
    assert missing.code == 2 and "NO_SUCH is not set in your environment" in missing.err


def test_ctrl_c_does_not_affect_the_job(ada: Person, here: Live) -> None:
    process = subprocess.Popen(
        [*BURSAR, "submit", "-y", "--follow", "--", "sh", "-c", "echo ready; sleep 600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), "BURSAR_SERVER": here.server, "BURSAR_TOKEN": ada.token},
        preexec_fn=with_ctrl_c,
    )
    assert process.stdout is not None
    job = process.stdout.readline().strip()
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"{job} continues" in messages
    deadline = time.monotonic() + 30
    # Output of a job can be read shortly before its start is recorded.
    while (state := ada.run("status", job, "--json").json()["state"]) == "starting":
        assert time.monotonic() < deadline, f"{job} has written output but never runs"
        time.sleep(0.02)
    assert state == "running"
    assert ada.run("cancel", job).code == 0
