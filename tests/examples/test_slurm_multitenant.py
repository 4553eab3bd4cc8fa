"""The story of examples/slurm-multitenant on a real Slurm, checked step by step."""

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


def the_example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = util.spec_from_file_location("slurm_multitenant", RUN)
    assert found is not None and found.loader is not None
    module = util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "slurm_multitenant", module)
    found.loader.exec_module(module)
    return module


@pytest.mark.real
@needs_slurm
@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of several users need root")
def test_two_teams_share_sixteen_nodes_and_inference_gets_its_own_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    example = the_example(monkeypatch)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with own_lab(example.plan()) as lab:
        monkeypatch.setattr(os, "environ", {**os.environ, **lab.environment()})
        story = example.play(lab, lambda _: None)
        expect_import(example, tmp_path)
        expect_only_the_change(example, tmp_path)
        expect_promotion(example, lab)

    assert len(story.applied["changes"]) > 10
    assert story.applied_again["changes"] == []
    assert story.applied_again["slurm_conf"] == []
    own = {"product-training": 8, "research-training": 16}
    assert story.held_before == {**own, "research-training-borrow": 24}
    assert story.held_after == {**own, "product-inference": 12, "research-training-borrow": 12}
    assert "research-training-borrow" in story.why
    assert "Held: " in story.why and "When: " in story.why and "To do: " in story.why
    expect_runs(story)
    expect_bill(story.usage)


def expect_runs(story: Any) -> None:
    """Only what was borrowed was stopped; everything ended well."""
    states = Counter((qos, state) for _, qos, state, *_ in story.runs)
    assert states["research-training-borrow", "PREEMPTED"] == 3
    assert {qos for qos, state in states if state == "PREEMPTED"} == {"research-training-borrow"}
    last = {job: state for job, _, state, *_ in story.runs}
    everybody = [*story.trained, *story.finetuned, *story.served]
    assert [last[job] for job in everybody] == ["COMPLETED"] * len(everybody)
    routed = Counter(route["qos"] for route in story.routes)
    assert routed == {
        "research-training": 4,
        "research-training-borrow": 6,
        "product-training": 2,
    }


def expect_bill(usage: dict[str, Any]) -> None:
    """Every account has its row, and all rows are what the nodes cost, to the micro-dollar."""
    rows = {row["account"]: row for row in usage["rows"]}
    assert sorted(rows) == ["product-inference", "product-training", "research-training"]
    assert [rows[name]["jobs"] for name in sorted(rows)] == [3, 2, 10]
    assert not any(row["foreign"] for row in rows.values())
    assert rows["research-training"]["wasted_micro_usd"] > 0
    spent = sum(row["micro_usd"] for row in rows.values()) + usage["idle_micro_usd"]
    assert spent == usage["fleet_micro_usd"]
    assert usage["bad_rows"] == []


def expect_promotion(example: ModuleType, lab: Lab) -> None:
    """A job that waits as borrowed moves to its queue's own quota, which is free now."""
    template = str(RUN.parent / "serve.sbatch")
    borrowed = ("--account=research-training", "--qos=research-training-borrow", "-p", "training")
    job = lab.run("sbatch", "--parsable", "--hold", "--uid=alice", *borrowed, template).strip()
    assert example.bursar("slurm", "promote", "--fleet", example.FLEET) == (
        f"{job} is in research-training now\n"
    )
    assert lab.run("squeue", "-h", "-o", "%i|%q").split() == [f"{job}|research-training"]
    lab.run("scancel", job)


def expect_only_the_change(example: ModuleType, folder: Path) -> None:
    """A weight and a quota differ: two commands, and afterwards none."""
    other = folder / "fleet.yaml"
    text = Path(example.FLEET).read_text(encoding="utf-8")
    changed = text.replace("weight: 3", "weight: 4").replace("nominal: 16", "nominal: 12")
    other.write_text(changed, encoding="utf-8")
    words = ("render", "slurm", "--fleet", str(other), "--grace", "0", "--json")
    found = json.loads(example.bursar(*words, "--apply"))
    assert [one["text"] for one in found["changes"]] == [
        "QOS research-training: GrpTRES gres/gpu=36,gres/gpu:t4=12",
        "account acme: GrpTRES gres/gpu=76,gres/gpu:t4=44",
        "account research: Fairshare 400",
    ]
    assert json.loads(example.bursar(*words, "--compare"))["changes"] == []


def expect_import(example: ModuleType, folder: Path) -> None:
    """What ran becomes a fleet, a trace and a log that run at once."""
    site = folder / "site"
    summary = json.loads(example.bursar("slurm", "import", "--output", str(site), "--json"))
    assert (summary["nodes"], summary["gpus"], summary["jobs"]) == (16, 80, 15)
    assert summary["bad_rows"] == []
    run = ("simulate", str(site / "trace.csv"), "--fleet", str(site / "fleet.yaml"))
    assert json.loads(example.bursar(*run, "-o", "json"))["summary"]["outcomes"]["succeeded"] == 15
    changes = ("--change", "nodes.t4=6", "-o", "json")
    compared = json.loads(example.bursar("whatif", str(site / "history.jsonl"), *changes))
    assert [one["name"] for one in compared["about"]] == ["as recorded", "changed"]
