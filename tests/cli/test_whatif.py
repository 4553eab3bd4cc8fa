"""``bursar whatif``."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from bursar.wiring.run_requests import comparison_text, prepare_whatif
from tests.cli.commands import bursar, bursar_alone, expect_refusal, write_trace

FLEET = """
clusters: {main: {}}
pools:
  a100:
    market: owned
    gpu_model: A100-80GB
    gpus_per_node: 8
    cpus: 96
    memory_gib: 1024
    usd_per_node_hour: 16
    nodes: 4
tenants:
  acme:
    children:
      red: {quotas: {a100-80gb/owned: {gpus: {nominal: 16, borrow: 0}}}}
      blue: {quotas: {a100-80gb/owned: {gpus: {nominal: 16, borrow: 0}}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whatif")
    (folder / "fleet.yaml").write_text(FLEET, encoding="utf-8")
    write_trace(folder, jobs=80)
    ran = bursar(
        *("simulate", "trace.csv", "--fleet", "fleet.yaml", "--log", "run.jsonl"),
        *("--faults", "node-loss=300000", "--checkpoint", "120", "--restart-cost", "30"),
        *("--start-delay", "5", "-o", "json"),
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    (folder / "run.json").write_text(ran.stdout, encoding="utf-8")
    return folder


def whatif(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bursar("whatif", "run.jsonl", *arguments, cwd=folder)


def summaries(folder: Path, *changes: str) -> list[dict[str, object]]:
    options = [word for change in changes for word in ("--change", change)]
    ran = whatif(folder, *options, "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    found: list[dict[str, object]] = json.loads(ran.stdout)["summaries"]
    for one in found:
        one.pop("cycles"), one.pop("name")
    return found


def test_both_runs_are_compared(folder: Path) -> None:
    options = ("run.jsonl", "--change", "quota.red.a100-80gb/owned=24")
    ran = bursar_alone("whatif", *options, cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("changed: quota.red.a100-80gb/owned=24\nrun.jsonl\n")
    assert re.search(r"^ +as recorded +changed$", ran.stdout, re.M)
    assert re.search(r"^wait mean by team +as recorded +changed$", ran.stdout, re.M)


def test_as_recorded_is_what_was_recorded_to_the_last_number(folder: Path) -> None:
    recorded = json.loads((folder / "run.json").read_text(encoding="utf-8"))["summary"]
    assert recorded["losses"]["attempts_lost_with_node"] > 0
    recorded.pop("cycles"), recorded.pop("name")
    again, unchanged = summaries(folder, "weight.red=1")
    assert again == recorded
    assert unchanged == recorded


def test_more_quota_is_less_wait_for_its_team(folder: Path) -> None:
    def waits(summary: dict[str, object]) -> float:
        teams = summary["teams"]
        assert isinstance(teams, list)
        (red,) = [one for one in teams if one["team"] == "red"]
        return float(red["times"]["wait_ms"]["mean"])

    before, after = summaries(folder, "quota.red.a100=24", "quota.blue.a100=8")
    assert waits(after) < waits(before)
    before, after = summaries(folder, "quota.red.a100-80gb/owned.borrow=none")
    assert waits(after) < waits(before)


@pytest.mark.parametrize(
    "change", ["nodes.a100=8", "nodes.a100=3", "policy.order=sjf", "policy.order=fifo-strict"]
)
def test_nodes_and_policies_can_be_changed(folder: Path, change: str) -> None:
    before, after = summaries(folder, change)
    assert before != after


def test_a_page_shows_both(folder: Path) -> None:
    ran = whatif(folder, "--change", "nodes.a100=8", "--html", "page.html")
    assert ran.returncode == 0
    assert "as recorded" in (folder / "page.html").read_text(encoding="utf-8")


def test_run_times_can_be_learned_while_a_log_is_run_again(folder: Path) -> None:
    before, after = summaries(folder, "policy.order=qssf")
    assert before["outcomes"] == after["outcomes"]
    assert before["times"] != after["times"]
    assert summaries(folder, "policy.order=qssf")[1]["times"] == after["times"]


def test_when_stopped_the_second_run_does_not_begin(folder: Path) -> None:
    prepared = prepare_whatif(str(folder / "run.jsonl"), ["nodes.a100=8"])
    (only,) = prepared.carry_out(lambda _progress: True)
    assert not only.complete
    assert 0 < only.summary.outcomes.submitted < 80
    assert "stopped early" in comparison_text([only])


@pytest.mark.parametrize(
    ("change", "problem", "fix"),
    [
        ("quota.red.a100", "not a path and a value", "nodes.a100=12"),
        ("qouta.red.a100=3", "'qouta' is not a setting", "Did you mean 'quota'?"),
        ("quota.rde.a100=3", "'rde' is not a tenant", "Did you mean 'red'?"),
        ("quota.red.h100=3", "'h100' is not a flavor", "a100-80gb/owned"),
        ("quota.red.a100.lned=3", "'lned' is not a field of a quota", "Did you mean 'lend'?"),
        ("quota.red.a100=many", "not a number of 0 or more", "Write one"),
        ("weight.rde=3", "'rde' is not a tenant", "Did you mean 'red'?"),
        ("nodes.a10=3", "'a10' is not a pool", "Did you mean 'a100'?"),
        ("nodes.a100=1.5", "not a whole number", "Write one"),
        ("policy.ordr=sjf", "'ordr' is not a key of a policy", "Did you mean 'order'?"),
        ("policy.order=sfj", "'sfj' is not an order", "Did you mean 'sjf'?"),
    ],
)
def test_an_invalid_change_is_rejected(folder: Path, change: str, problem: str, fix: str) -> None:
    expect_refusal(whatif(folder, "--change", change), problem, fix)


def test_a_file_that_is_no_log_is_rejected(folder: Path) -> None:
    options = ("--change", "nodes.a100=3")
    expect_refusal(bursar("whatif", "trace.csv", *options, cwd=folder), "trace.csv:1", "")
    expect_refusal(bursar("whatif", "none", *options, cwd=folder), "none cannot be read", "path")


def test_a_change_is_needed(folder: Path) -> None:
    expect_refusal(whatif(folder), "required: --change", "bursar whatif --help", code=2)
