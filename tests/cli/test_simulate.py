"""``bursar simulate``."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.children import with_ctrl_c
from tests.cli.commands import (
    BURSAR,
    bursar,
    bursar_alone,
    environment,
    expect_refusal,
    without_cycle_times,
    write_fleet,
    write_trace,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulate")
    write_fleet(folder)
    write_trace(folder)
    return folder


def simulate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bursar("simulate", "trace.csv", "--fleet", "fleet.yaml", *arguments, cwd=folder)


def test_the_results_of_a_run_are_printed(folder: Path) -> None:
    options = ("trace.csv", "--fleet", "fleet.yaml", "--policy", "fifo-strict")
    ran = bursar_alone("simulate", *options, cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    result = ran.stdout.splitlines()
    assert result[0] == "trace.csv on fleet (16 GPUs), policy fifo-strict"
    for measure in ("JCT mean", "wait p99", "GPUs allocated", "Jain index", "idle dollars"):
        assert re.search(rf"^{measure} +\S", ran.stdout, re.M), measure
    assert re.search(r"^jobs succeeded +40$", ran.stdout, re.M)
    assert re.search(r"^team +jobs +wait mean", ran.stdout, re.M)
    assert re.search(r"^red +26 ", ran.stdout, re.M)


def test_the_fleet_files_own_policies_are_the_default(folder: Path) -> None:
    ran = simulate(folder)
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[0].endswith("policy fleet")


def test_the_same_input_gives_the_same_bytes(folder: Path) -> None:
    again = ("--policy", "qssf", "--seed", "3", "--faults", "node-loss=20000,failure=0.1")
    options = ("simulate", "trace.csv", "--fleet", "fleet.yaml", *again)
    first, second = (bursar_alone(*options, cwd=folder) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert without_cycle_times(first.stdout) == without_cycle_times(second.stdout)


def test_json_has_the_summary_and_what_is_not_in_it(folder: Path) -> None:
    ran = simulate(folder, "--policy", "sjf", "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    result = json.loads(ran.stdout)
    assert (result["policy"], result["gpus"], result["complete"]) == ("sjf", 16, True)
    assert result["summary"]["outcomes"]["succeeded"] == result["jobs_in_all"] == 40
    assert result["bad_rows"] == {"count": 0, "first": []}


def test_a_page_is_written_that_needs_no_network(folder: Path) -> None:
    ran = simulate(folder, "--html", "run.html", "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["complete"]
    page = (folder / "run.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "<svg" in page and "JCT mean" in page
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)


def test_a_drawn_workload_needs_no_file(folder: Path) -> None:
    options = ("--fleet", "fleet.yaml", "-o", "json")
    source = "synthetic:philly-like?jobs=60&load=0.8"
    result = [
        json.loads(bursar("simulate", source, *options, "--seed", seed, cwd=folder).stdout)
        for seed in ("1", "1", "2")
    ]
    assert [one["jobs_in_all"] for one in result] == [60] * 3
    for one in result:
        one["summary"].pop("cycles")
    assert result[0] == result[1] != result[2]
    assert result[0]["summary"]["outcomes"]["submitted"] + result[0]["left_out"]["count"] == 60


def test_parts_of_gpus_can_be_slices(folder: Path) -> None:
    from bursar.model.event import GpuPartitioned
    from bursar.simulate.workload.event_log import read_run

    ran = bursar(
        *("simulate", "synthetic:inference-mix?jobs=50", "--fleet", "fleet.yaml"),
        *("--mig", "--log", "mig.jsonl"),
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    events = read_run(folder / "mig.jsonl").events
    assert any(isinstance(event, GpuPartitioned) for event in events)


def test_a_limit_takes_the_first_jobs(folder: Path) -> None:
    result = json.loads(simulate(folder, "--limit", "7", "-o", "json").stdout)
    assert result["summary"]["outcomes"]["submitted"] == 7


def test_seeds_give_different_faults(folder: Path) -> None:
    results = {
        json.dumps(json.loads(simulate(folder, *options, "-o", "json").stdout)["summary"]["losses"])
        for seed in ("1", "2")
        for options in [("--faults", "failure=0.5", "--retries", "9", "--seed", seed)]
    }
    assert len(results) == 2


def test_a_queue_for_all_and_a_queue_for_each(folder: Path) -> None:
    teams = json.loads(simulate(folder, "-o", "json").stdout)["summary"]["teams"]
    one = json.loads(simulate(folder, "--one-queue", "-o", "json").stdout)["summary"]["teams"]
    assert sorted(team["team"] for team in teams) == ["blue", "red"]
    assert [team["team"] for team in one] == ["default"]


def test_a_log_reads_back(folder: Path) -> None:
    from bursar.model.event import JobSubmitted
    from bursar.simulate.workload.event_log import read_run

    assert simulate(folder, "--log", "run.jsonl").returncode == 0
    recorded = read_run(folder / "run.jsonl")
    assert len(recorded.fleet.nodes) == 2
    assert sum(isinstance(event, JobSubmitted) for event in recorded.events) == 40


def test_bad_rows_and_jobs_too_large_are_reported_and_counted(folder: Path) -> None:
    (folder / "rough.csv").write_text(
        "job_id,submit_s,run_s,gpus\n"
        "good,0,60,1\n"
        "early,-5,60,1\n"
        "huge,10,60,4096\n"
        "words,10,long,1\n"
        "late,20,60,2\n",
        encoding="utf-8",
    )
    ran = bursar("simulate", "rough.csv", "--fleet", "fleet.yaml", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^jobs succeeded +2$", ran.stdout, re.M)
    assert "2 invalid rows of the trace skipped:" in ran.stdout
    assert "rough.csv:3: " in ran.stdout and "rough.csv:5: " in ran.stdout
    assert "1 job left out: it could never run on this fleet" in ran.stdout
    assert "job huge: " in ran.stdout
    result = json.loads(
        bursar("simulate", "rough.csv", "--fleet", "fleet.yaml", "-o", "json", cwd=folder).stdout
    )
    assert (result["bad_rows"]["count"], result["left_out"]["count"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (
            ("none.csv", "--fleet", "fleet.yaml"),
            "none.csv: there is no such file",
            "Check the path",
        ),
        (("trace.csv", "--fleet", "none.yaml"), "none.yaml cannot be read", "Check the path"),
        (("trace.csv", "--fleet", "trace.csv"), "trace.csv:1", "Write"),
        (("fleet.yaml", "--fleet", "fleet.yaml"), "fleet.yaml", ""),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--policy", "fifo-srict"),
            "'fifo-srict' is not an order",
            "Did you mean 'fifo-strict'? There are: bursar,",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--faults", "spto"),
            "--faults spto",
            "Did you mean 'spot'?",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--faults", "failure=2"),
            "not a number from 0 to 1",
            "'failure' alone",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--faults", "spot=3"),
            "not a pool and a file",
            "interruptions_per_million_hours",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--faults", "spot=nowhere:no-such.json"),
            "no-such.json",
            "",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--format", "sact"),
            "'sact' is not a known trace format",
            "Did you mean 'sacct'?",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--html", "no/such/folder/x"),
            "no/such/folder/x cannot be written",
            "a folder that exists",
        ),
        (
            ("synthetic:phily-like", "--fleet", "fleet.yaml"),
            "'phily-like' is not a synthetic workload",
            "philly-like",
        ),
        (
            ("synthetic:philly-like?job=5", "--fleet", "fleet.yaml"),
            "'job' is not a setting",
            "Did you mean 'jobs'?",
        ),
        (
            ("synthetic:philly-like?jobs=1.5", "--fleet", "fleet.yaml"),
            "jobs is '1.5'",
            "a whole number above 0",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--log", "no/such/folder/x"),
            "no/such/folder/x cannot be written",
            "a writable folder",
        ),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--faults", "straggler=x"),
            "not a number from 0 to 1",
            "'straggler' alone",
        ),
    ],
)
def test_wrong_input_is_two_lines(
    folder: Path, arguments: tuple[str, ...], problem: str, fix: str
) -> None:
    expect_refusal(bursar("simulate", *arguments, cwd=folder), problem, fix)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "arguments are required: TRACE"),
        (
            ("trace.csv", "--fleet", "fleet.yaml", "--limit", "0"),
            "argument --limit: 0 is less than 1",
        ),
        (("trace.csv", "--fleet", "fleet.yaml", "--seed", "-1"), "argument --seed"),
        (("trace.csv", "--fleet", "fleet.yaml", "-o", "yaml"), "invalid choice: 'yaml'"),
        (("trace.csv", "--fleet", "fleet.yaml", "--plicy", "x"), "'--plicy' is not an argument"),
    ],
)
def test_wrong_usage(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    ran = bursar("simulate", *arguments, cwd=folder)
    expect_refusal(ran, problem, "'bursar simulate --help' lists the arguments", code=2)


def test_a_trace_without_jobs(folder: Path) -> None:
    (folder / "empty.csv").write_text("job_id,submit_s,run_s,gpus\n", encoding="utf-8")
    ran = bursar("simulate", "empty.csv", "--fleet", "fleet.yaml", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("\nthe trace has no jobs\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_no_traceback(folder: Path) -> None:
    expect_refusal(simulate(folder, "--log", "/dev/full"), "cannot be written", "free space")


def test_a_progress_bar_is_shown_on_request(folder: Path) -> None:
    write_trace(folder, jobs=800, name="long.csv")
    ran = bursar("simulate", "long.csv", "--fleet", "fleet.yaml", "--progress", cwd=folder)
    assert ran.returncode == 0
    assert re.search(r"\[#*\.*\] +\d+%  [\d,]+ of 800 jobs  [\d,]+ jobs/s", ran.stderr)
    assert "of 800 jobs" not in ran.stdout


@pytest.mark.parametrize("output", ["text", "json"])
def test_ctrl_c_keeps_partial_results(folder: Path, output: str) -> None:
    write_trace(folder, jobs=30_000, name="endless.csv")
    with subprocess.Popen(
        [*BURSAR, "simulate", "endless.csv", "--fleet", "fleet.yaml", "--progress", "-o", output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=folder,
        preexec_fn=with_ctrl_c,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        while b" of 30,000 jobs" not in process.stderr.read(40):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().decode()
        result = process.stdout.read().decode()
        assert process.wait(timeout=60) == 130
    assert "Traceback" not in rest
    if output == "json":
        parsed = json.loads(result)
        assert parsed["complete"] is False
        assert 0 < parsed["summary"]["outcomes"]["submitted"] < 30_000
        assert parsed["jobs_over"] == parsed["summary"]["outcomes"]["succeeded"]
    else:
        assert "stopped early: the numbers cover " in result
        assert re.search(r"^JCT mean +\S", result, re.M)
