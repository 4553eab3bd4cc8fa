"""Governance rules over HTTP: reported at submission and on request; enforced ones reject."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.harness import FLEET, ApiHarness, open_harness

RULES = """
policies:
  governance:
    rate_ceiling: {usd_per_hour: 0.50, owner: finops, mode: %s}
    right_size: {runs: 1}
"""


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path, FLEET + RULES % "dry-run") as one:
        yield one


def job(gpus: int) -> dict[str, object]:
    return {
        "run": "true",
        "queue": "a-train",
        "name": "big",
        "resources": {"accelerators": f"T4:{gpus}"},
    }


def test_a_dry_run_rule_is_reported_at_submission_and_on_request(api: ApiHarness) -> None:
    ann, bob = api.client("ann"), api.client("bob")
    (finding,) = ann.post("/v1/jobs", job(2)).json["findings"]
    assert (finding["rule"], finding["mode"], finding["owner"]) == (
        "rate-ceiling",
        "dry-run",
        "finops",
    )
    assert "$0.80 an hour or more on t4" in finding["text"]
    assert ann.post("/v1/jobs", job(1)).json["findings"] == []
    assert [one["subject"] for one in ann.get("/v1/rules").json["items"]] == ["job 'big'"]
    assert bob.get("/v1/rules").json["items"] == []


def test_an_enforced_rule_rejects_with_owner_and_fix(api: ApiHarness) -> None:
    admin, ann = api.client("admin"), api.client("ann")
    files = {"files": {"fleet.yaml": FLEET + RULES % "enforce"}}
    assert admin.post("/v1/fleet:apply", files).status == 200
    refused = ann.post("/v1/jobs", job(2))
    assert (refused.status, refused.json["code"]) == (422, "policy-rate-ceiling")
    assert "finops" in refused.json["fix"]
    assert ann.post("/v1/jobs", job(1)).status == 201
