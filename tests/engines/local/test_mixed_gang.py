"""A mixed gang on virtual nodes loses a spot node, restarts and succeeds."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from tests.examples.up import Installation, until, up

STEPS = 60
FLEET = """
clusters:
  here: {engine: local}
pools:
  spot: {cluster: here, market: spot, gpu_model: t4, gpus_per_node: 1, cpus: 2, memory_gib: 4,
         usd_per_node_hour: 0.1, interruptions_per_million_hours: 100000, nodes: [spot-a, spot-b, spot-c]}
  steady: {cluster: here, market: owned, gpu_model: t4, gpus_per_node: 1, cpus: 2, memory_gib: 4,
           usd_per_node_hour: 0.5, nodes: [steady-a, steady-b]}
tenants:
  company: {children: {training: {}}}
"""
WORK = f"""
import hashlib, os, time
from pathlib import Path
from bursar.sdk import checkpointing
rank = os.environ["RANK"]
with checkpointing(os.environ["PLACE"], every_rank=True) as run:
    checkpoint = run.resume()
    step, digest = 0, rank.encode()
    if checkpoint is not None:
        step, digest = checkpoint.step, (checkpoint.path / "digest").read_bytes()
    while step < {STEPS}:
        digest = hashlib.sha256(digest).digest()
        step += 1
        while step == 25 and os.environ["BURSAR_ATTEMPT"] == "1" and not run.should_stop:
            time.sleep(0.05)
        if run.should_stop or step % 10 == 0:
            run.save(step, lambda folder: (Path(folder) / "digest").write_bytes(digest))
Path(os.environ["RESULT"] + rank).write_text(digest.hex())
"""


def job_file(folder: Path, python: str) -> Path:
    (folder / "work.py").write_text(WORK, encoding="utf-8")
    path = folder / "job.yaml"
    path.write_text(
        json.dumps(
            {
                "name": "mixed",
                "queue": "training",
                "num_nodes": 3,
                "resources": {
                    "accelerators": "T4:1",
                    "use_spot": "allowed",
                    "anchors_percent": 30,
                },
                "checkpoint": {"interval": "1 s", "signal": "SIGTERM"},
                "grace": "20 s",
                "expected_hours": "1 min",
                "envs": {
                    "PLACE": str(folder / "checkpoints"),
                    "RESULT": str(folder / "result-"),
                },
                "run": f"exec {python} {folder / 'work.py'}",
            }
        ),
        encoding="utf-8",
    )
    return path


def uninterrupted_digest(rank: int) -> str:
    digest = str(rank).encode()
    for _ in range(STEPS):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()


def status_of(here: Installation, job: str) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(here.bursar("status", job, "-o", "json"))
    return status


def test_a_mixed_gang_survives_the_loss_of_a_spot_node(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    with up(tmp_path, fleet) as here:
        planned = here.bursar("plan", str(job_file(tmp_path, sys.executable)))
        assert (
            "runs on   spot+steady (t4-16gb/spot+t4-16gb/owned): spot-a, spot-b, steady-a"
            in planned
        )
        submitted = here.bursar("submit", str(tmp_path / "job.yaml"), "-o", "json")
        job = json.loads(submitted)["id"]
        until(lambda: (status_of(here, job)["saved_step"] or 0) >= 10, "something was saved")
        first = status_of(here, job)
        assert (first["pool"], first["micro_usd_per_hour"]) == ("spot+steady", 700_000)
        spot = [node for node in first["nodes"] if node.startswith("spot")]
        assert len(spot) == 2 and len(first["nodes"]) == 3
        why = here.bursar("why", job)
        assert "is running on spot and, as anchors, steady" in why
        assert "spot (spot) with 1 of 3 tasks as anchors in steady at $0.70 an hour" in why
        here.bursar("chaos", "interrupt", job, "--notice", "8s", "--away", "2m")
        until(lambda: status_of(here, job)["state"] == "succeeded", "it ended")
        attempts = status_of(here, job)["attempts"]
        assert [one["outcome"] for one in attempts] == ["AttemptPreempted", "AttemptSucceeded"]
        assert [one["flavor"] for one in attempts] == ["t4-16gb/spot+t4-16gb/owned"] * 2
        assert attempts[1]["resumed_step"] == 25
        lost = set(spot) - set(attempts[1]["nodes"])
        assert len(lost) == 1
    for rank in range(3):
        assert (tmp_path / f"result-{rank}").read_text() == uninterrupted_digest(rank)
