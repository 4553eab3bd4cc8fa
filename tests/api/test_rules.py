"""The house rules over HTTP: told at submission and on request, refused when enforced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.scene import FLEET, Scene, open_scene

RULES = """
policies:
  governance:
    rate_ceiling: {usd_per_hour: 0.50, owner: finops, mode: %s}
    right_size: {runs: 1}
"""


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with open_scene(tmp_path, FLEET + RULES % "dry-run") as one:
        yield one


def job(gpus: int) -> dict[str, object]:
    return {
        "run": "true",
        "queue": "a-train",
        "name": "big",
        "resources": {"accelerators": f"T4:{gpus}"},
    }


def test_a_dry_run_is_told_to_whoever_submits_and_whoever_asks(scene: Scene) -> None:
    ann, bob = scene.asker("ann"), scene.asker("bob")
    (said,) = ann.post("/v1/jobs", job(2)).json["findings"]
    assert (said["rule"], said["mode"], said["owner"]) == ("rate-ceiling", "dry-run", "finops")
    assert "$0.80 an hour or more on t4" in said["text"]
    assert ann.post("/v1/jobs", job(1)).json["findings"] == []
    assert [one["subject"] for one in ann.get("/v1/rules").json["items"]] == ["job 'big'"]
    assert bob.get("/v1/rules").json["items"] == []


def test_an_enforced_rule_refuses_with_owner_and_fix(scene: Scene) -> None:
    admin, ann = scene.asker("admin"), scene.asker("ann")
    files = {"files": {"fleet.yaml": FLEET + RULES % "enforce"}}
    assert admin.post("/v1/fleet:apply", files).status == 200
    refused = ann.post("/v1/jobs", job(2))
    assert (refused.status, refused.json["code"]) == (422, "policy-rate-ceiling")
    assert "finops" in refused.json["fix"]
    assert ann.post("/v1/jobs", job(1)).status == 201
