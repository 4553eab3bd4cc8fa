"""``bursar trace``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import bursar, bursar_alone, expect_refusal, write_fleet, write_trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    write_fleet(folder)
    write_trace(folder)
    return folder


def test_a_trace_is_described(folder: Path) -> None:
    ran = bursar_alone("trace", "describe", "trace.csv", "--fleet", "fleet.yaml", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "jobs        40 over " in ran.stdout
    assert "of 16 GPUs" in ran.stdout
    assert "bad rows    0" in ran.stdout


def test_a_description_for_programs(folder: Path) -> None:
    (folder / "rough.csv").write_text(
        "job_id,submit_s,run_s,gpus\na,0,60,1\nb,x,60,1\n", encoding="utf-8"
    )
    ran = bursar("trace", "describe", "rough.csv", "-o", "json", cwd=folder)
    result = json.loads(ran.stdout)
    assert result["jobs"] == 1
    assert result["bad_rows"]["count"] == 1
    assert result["bad_rows"]["first"][0].startswith("rough.csv:3: ")


@pytest.mark.parametrize("out", ["out.csv", "out.csv.xz", "out.csv.gz"])
def test_a_converted_trace_has_the_same_jobs(folder: Path, out: str) -> None:
    ran = bursar("trace", "convert", "trace.csv", out, cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith(f"written     {out}\n")
    before, after = (
        json.loads(bursar("trace", "describe", file, "-o", "json", cwd=folder).stdout)
        for file in ("trace.csv", out)
    )
    assert {**before, "source": ""} == {**after, "source": ""}


def test_a_generated_workload_can_be_written(folder: Path) -> None:
    source = "synthetic:helios-like?jobs=30"
    ran = bursar("trace", "convert", source, "drawn.csv", "--seed", "4", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    result = bursar("trace", "describe", source, "--seed", "4", cwd=folder).stdout
    written = bursar("trace", "describe", "drawn.csv", cwd=folder).stdout
    assert result.splitlines()[2:] == written.splitlines()[2:]


@pytest.mark.parametrize(
    ("arguments", "problem", "fix"),
    [
        (("describe", "synthetic:philly-like?load=1"), "there is no fleet", "--fleet"),
        (("describe", "none.csv"), "none.csv: there is no such file", "Check the path"),
        (("describe", "trace.csv", "--fleet", "none"), "none cannot be read", "Check the path"),
        (("convert", "trace.csv", "out.doc"), "out.doc", ".csv"),
        (("convert", "trace.csv", "no/folder/out.csv"), "cannot be written", "folder"),
    ],
)
def test_wrong_input_is_two_lines(
    folder: Path, arguments: tuple[str, ...], problem: str, fix: str
) -> None:
    expect_refusal(bursar("trace", *arguments, cwd=folder), problem, fix)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((), "arguments are required: VERB"), (("descirbe", "x"), "invalid choice: 'descirbe'")],
)
def test_wrong_usage(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    expect_refusal(bursar("trace", *arguments, cwd=folder), problem, "--help", code=2)
