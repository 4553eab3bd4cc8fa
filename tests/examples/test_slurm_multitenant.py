"""Runs examples/slurm-multitenant on a real Slurm and checks each step."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.shared_slurm_lab import needs_slurm, own_lab
from tests.support.slurm_lab.lab import Lab
from tests.tidy.source import ROOT

RUN = ROOT / "examples" / "slurm-multitenant" / "run.py"


def load_example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = util.spec_from_file_location("slurm_multitenant", RUN)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "slurm_multitenant", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.real
@needs_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_two_teams_share_a_slurm_cluster_and_inference_reclaims_its_quota(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    example = load_example(monkeypatch)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with own_lab(example.plan()) as lab:
        monkeypatch.setattr(os, "environ", {**os.environ, **lab.environment()})
        run = example.run_example(lab, lambda _: None)
        expect_import(example, tmp_path)
        expect_only_changes(example, tmp_path)
        expect_promotion(example, lab)

    assert len(run.applied["changes"]) > 10
    assert run.applied_again["changes"] == []
    assert run.applied_again["slurm_conf"] == []
    own = {"product-training": 8, "research-training": 16}
    assert run.held_before == {**own, "research-training-borrow": 24}
    assert run.held_after == {**own, "product-inference": 12, "research-training-borrow": 12}
    assert "research-training-borrow" in run.why
    assert "Held: " in run.why and "When: " in run.why and "To do: " in run.why
    expect_runs(run)
    expect_bill(run.usage)


def expect_runs(run: Any) -> None:
    """Only borrowing jobs were preempted; all jobs completed."""
    states = Counter((qos, state) for _, qos, state, *_ in run.runs)
    assert states["research-training-borrow", "PREEMPTED"] == 3
    assert {qos for qos, state in states if state == "PREEMPTED"} == {"research-training-borrow"}
    last = {job: state for job, _, state, *_ in run.runs}
    jobs = [*run.trained, *run.finetuned, *run.served]
    assert [last[job] for job in jobs] == ["COMPLETED"] * len(jobs)
    routed = Counter(route["qos"] for route in run.routes)
    assert routed == {
        "research-training": 4,
        "research-training-borrow": 6,
        "product-training": 2,
    }


def expect_bill(usage: dict[str, Any]) -> None:
    """Every account has a row, and the rows add up to the cost of the nodes exactly."""
    rows = {row["account"]: row for row in usage["rows"]}
    assert sorted(rows) == ["product-inference", "product-training", "research-training"]
    assert [rows[name]["jobs"] for name in sorted(rows)] == [3, 2, 10]
    assert not any(row["foreign"] for row in rows.values())
    assert rows["research-training"]["wasted_micro_usd"] > 0
    spent = sum(row["micro_usd"] for row in rows.values()) + usage["idle_micro_usd"]
    assert spent == usage["fleet_micro_usd"]
    assert usage["bad_rows"] == []


def expect_promotion(example: ModuleType, lab: Lab) -> None:
    """A waiting borrower moves to its queue's own quota when that is free."""
    template = str(RUN.parent / "serve.sbatch")
    borrowed = ("--account=research-training", "--qos=research-training-borrow", "-p", "training")
    job = lab.run("sbatch", "--parsable", "--hold", "--uid=alice", *borrowed, template).strip()
    assert example.bursar("slurm", "promote", "--fleet", example.FLEET) == (
        f"{job} moved to research-training\n"
    )
    assert lab.run("squeue", "-h", "-o", "%i|%q").split() == [f"{job}|research-training"]
    lab.run("scancel", job)


def expect_only_changes(example: ModuleType, folder: Path) -> None:
    """A changed weight and quota lead to three changes, and to none the second time."""
    other = folder / "fleet.yaml"
    text = Path(example.FLEET).read_text(encoding="utf-8")
    changed = text.replace("weight: 3", "weight: 4").replace("nominal: 16", "nominal: 12")
    other.write_text(changed, encoding="utf-8")
    command = ("render", "slurm", "--fleet", str(other), "--grace", "0", "--json")
    found = json.loads(example.bursar(*command, "--apply"))
    assert [one["text"] for one in found["changes"]] == [
        "QOS research-training: GrpTRES gres/gpu=36,gres/gpu:t4=12",
        "account acme: GrpTRES gres/gpu=76,gres/gpu:t4=44",
        "account research: Fairshare 400",
    ]
    assert json.loads(example.bursar(*command, "--compare"))["changes"] == []


def expect_import(example: ModuleType, folder: Path) -> None:
    """The history is imported as a fleet, a trace and a log that can be simulated."""
    site = folder / "site"
    summary = json.loads(example.bursar("slurm", "import", "--output", str(site), "--json"))
    assert (summary["nodes"], summary["gpus"], summary["jobs"]) == (16, 80, 15)
    assert summary["bad_rows"] == []
    run = ("simulate", str(site / "trace.csv"), "--fleet", str(site / "fleet.yaml"))
    assert json.loads(example.bursar(*run, "-o", "json"))["summary"]["outcomes"]["succeeded"] == 15
    changes = ("--change", "nodes.t4=6", "-o", "json")
    compared = json.loads(example.bursar("whatif", str(site / "history.jsonl"), *changes))
    assert [one["name"] for one in compared["about"]] == ["as recorded", "changed"]
