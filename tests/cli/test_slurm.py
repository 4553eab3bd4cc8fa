"""``bursar render slurm`` and ``bursar slurm`` on a machine without Slurm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, bursar, expect_refusal, write_fleet

FLEET = ROOT / "examples" / "slurm-multitenant" / "fleet.yaml"
NO_SLURM = "'scontrol'"


@pytest.fixture(autouse=True)
def _no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Slurm's commands, whatever this one has."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in [one for one in os.environ if one.startswith("SLURM_")]:
        monkeypatch.delenv(name)


def test_commands_and_conf_are_printed_and_warnings_go_elsewhere() -> None:
    ran = bursar("render", "slurm", "--fleet", FLEET, "--user", "ann=product-training")
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0
    assert lines[0] == (
        "sacctmgr -i -Q add qos research-training Priority=1000 GraceTime=30 "
        "GrpTRES=gres/gpu=40,gres/gpu:a100=24,gres/gpu:t4=16"
    )
    assert "sacctmgr -i -Q add user ann Account=product-training Cluster=lab" in lines
    assert any(line.startswith("PartitionName=inference Nodes=t4-[1-12]") for line in lines)
    assert "warning: partition training: its pools differ in price" in ran.stderr


def test_the_same_for_programs() -> None:
    ran = bursar("render", "slurm", "--fleet", FLEET, "--json")
    made = json.loads(ran.stdout)
    assert len(made["commands"]) == 14
    assert "PreemptType=preempt/qos" in made["slurm_conf"]


def test_a_fleet_without_a_slurm_cluster(tmp_path: Path) -> None:
    ran = bursar("render", "slurm", "--fleet", write_fleet(tmp_path))
    expect_refusal(ran, "no cluster of this fleet uses Slurm", "engine: slurm")


def test_a_cluster_that_is_not_there() -> None:
    ran = bursar("render", "slurm", "--fleet", FLEET, "--cluster", "moon")
    expect_refusal(ran, "no Slurm cluster 'moon'", "lab")


@pytest.mark.parametrize(
    "words",
    [
        ("render", "slurm", "--fleet", FLEET, "--compare"),
        ("render", "slurm", "--fleet", FLEET, "--apply", "--yes"),
        ("slurm", "import", "--output", "site"),
        ("slurm", "usage", "--fleet", FLEET),
        ("slurm", "promote", "--fleet", FLEET),
        ("why", "1234"),
    ],
)
def test_without_slurm_the_fix_names_a_login_node(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = bursar(*words, cwd=tmp_path)
    assert ran.returncode == 1 and ran.stdout == ""
    assert NO_SLURM in ran.stderr and "login node" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "site").exists()


def test_a_job_without_a_queue_is_rejected_before_slurm_is_called(tmp_path: Path) -> None:
    ran = bursar("submit", "--governed", FLEET, "--gpus", "2", "--", "true", cwd=tmp_path)
    expect_refusal(ran, "lacks 'queue'", "queue:")
