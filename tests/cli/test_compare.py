"""``bursar compare``."""

from __future__ import annotations

import json
import os
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
    folder = tmp_path_factory.mktemp("compare")
    write_fleet(folder)
    write_fleet(folder, nodes=4, name="large.yaml")
    write_trace(folder)
    return folder


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bursar_alone("compare", "trace.csv", *arguments, cwd=folder)


TWO = ("--fleet", "fleet.yaml", "--policy", "fifo-strict", "--policy", "sjf")


def test_policies_are_compared(folder: Path) -> None:
    ran = compare(folder, *TWO)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"^ +fifo-strict +sjf$", ran.stdout, re.M)
    assert re.search(r"^JCT mean +[\d.]+ \S+ +[\d.]+ \S+ \* *-[\d.]+ %$", ran.stdout, re.M)
    assert "percentages are differences to fifo-strict" in ran.stdout


def test_each_column_equals_the_result_of_simulate(folder: Path) -> None:
    result = json.loads(compare(folder, *TWO, "-o", "json").stdout)
    for number, policy in enumerate(("fifo-strict", "sjf")):
        alone = json.loads(
            bursar(
                *("simulate", "trace.csv", "--fleet", "fleet.yaml", "--policy", policy),
                *("-o", "json"),
                cwd=folder,
            ).stdout
        )["summary"]
        compared = result["summaries"][number]
        alone.pop("cycles"), compared.pop("cycles")
        assert compared == alone


def test_fleets_are_compared(folder: Path) -> None:
    ran = compare(folder, "--fleet", "fleet.yaml", "--fleet", "large.yaml", "-o", "json")
    result = json.loads(ran.stdout)
    assert result["runs"] == ["fleet", "large"]
    assert [one["gpus"] for one in result["about"]] == [16, 32]
    both = compare(folder, *TWO, "--fleet", "large.yaml", "-o", "json")
    assert json.loads(both.stdout)["runs"] == [
        *("fleet fifo-strict", "fleet sjf", "large fifo-strict", "large sjf")
    ]


def test_a_page_shows_all_runs(folder: Path) -> None:
    ran = compare(folder, *TWO, "--html", "both.html")
    assert (ran.returncode, ran.stderr) == (0, "")
    page = (folder / "both.html").read_text(encoding="utf-8")
    assert "fifo-strict" in page and "sjf" in page


def test_the_same_input_gives_the_same_bytes(folder: Path) -> None:
    first, second = (compare(folder, *TWO).stdout for _ in range(2))
    assert without_cycle_times(first) == without_cycle_times(second)


def test_omitted_jobs_are_reported_for_their_fleet(folder: Path) -> None:
    (folder / "gang.csv").write_text(
        "job_id,submit_s,run_s,gpus\nsmall,0,60,1\nlarge,0,60,32\n", encoding="utf-8"
    )
    ran = bursar_alone(
        *("compare", "gang.csv", "--fleet", "fleet.yaml", "--fleet", "large.yaml"), cwd=folder
    )
    assert "fleet: 1 job left out: it could never run on this fleet" in ran.stdout
    assert "large: 1 job" not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (("--fleet", "fleet.yaml", "--policy", "sfj"), "'sfj' is not an order", "'sjf'"),
        (("--fleet", "none.yaml"), "none.yaml cannot be read", "Check the path"),
        (
            ("--fleet", "fleet.yaml", "--format", "swff"),
            "'swff' is not a known trace format",
            "'swf'",
        ),
    ],
)
def test_wrong_input_is_two_lines(
    folder: Path, arguments: tuple[str, ...], problem: str, fix: str
) -> None:
    expect_refusal(bursar("compare", "trace.csv", *arguments, cwd=folder), problem, fix)


def test_ctrl_c_keeps_partial_results(folder: Path) -> None:
    """A terminal sends SIGINT to every process of the group."""
    write_trace(folder, jobs=30_000, name="endless.csv")
    with subprocess.Popen(
        [*BURSAR, "compare", "endless.csv", *TWO, "--progress"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        cwd=folder,
        start_new_session=True,
        preexec_fn=with_ctrl_c,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        while b" of 60,000 jobs" not in process.stderr.read(40):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stderr.read().decode()
        result = process.stdout.read().decode()
        assert process.wait(timeout=60) == 130
    assert "Traceback" not in rest
    assert "stopped early" in result
